"""Who the agents of a run are, on this node: files, made of pieces that come with a launch or stand in the world."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import gc
import os
import shutil
import stat
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from agent_runtime.agents.cohort import AGENT_ID
from agent_runtime.model.errors import LaunchError
from agent_runtime.model.refusals import refuse_field, refuse_limit
from agent_runtime.node.arrow_streams import is_compressed
from agent_runtime.node.records import Description, Population, Records
from agent_runtime.node.run_names import is_run_name

CHUNK_ROWS = 65_536
READS_AHEAD = 4


class Arriving:
    """Populations that come in pieces, within a bound for all of them."""

    def __init__(self, bytes_max: int, chunk_bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._chunk_bytes_max = chunk_bytes_max
        self._size_bytes = 0
        self.chunks: dict[str, list[bytes]] = {}

    def add(self, group: str, piece: bytes) -> None:
        """Take a piece. Raises NodeError."""
        if len(piece) > self._chunk_bytes_max:
            raise refuse_limit("chunk_bytes_max", self._chunk_bytes_max, len(piece))
        self._size_bytes += len(piece)
        if self._size_bytes > self._bytes_max:
            error = refuse_limit("population_bytes_max", self._bytes_max, self._size_bytes)
            error.message += ": put larger populations into files that are there under the same path on every node"
            raise error
        self.chunks.setdefault(group, []).append(piece)

    def check_groups(self, groups: Collection[str]) -> None:
        """Raises NodeError for agents of a group that is none of those whose agents are sent."""
        if stray := self.chunks.keys() - set(groups):
            raise refuse_field("chunk.group", f"{min(stray)!r} is no group whose agents are to be sent")

    def is_of(self, kept: Mapping[str, Sequence[bytes]]) -> bool:
        """Whether what was taken are the agents that are kept, of each group of which there is something."""
        return all(b"".join(pieces) == b"".join(kept.get(group, ())) for group, pieces in self.chunks.items())

    def describe(self, group: str) -> Population:
        """What was taken for a group."""
        pieces = self.chunks.get(group, [])
        return Population(len(pieces), sum(map(len, pieces)))


async def fetch_chunks(records: Records, description: Description) -> dict[str, list[bytes]]:
    """The populations of a run that stand in the world.

    Raises:
        EcumeneError: one of them is not there any more.
    """
    return {
        group: [await records.read_chunk(description.run, group, number) for number in range(population.chunks)]
        for group, population in description.populations.items()
        if population.chunks
    }


def write_file(folder: Path, group: str, chunks: Sequence[bytes]) -> Path:
    """Write a population as the file that workers map. Blocks.

    Raises:
        LaunchError: the pieces are no Arrow IPC stream, or none with agents in it, or take more room than they came in.
    """
    where = f"groups.{group}.agents"
    try:
        stream = pa.py_buffer(b"".join(chunks))
        if is_compressed(stream):
            raise LaunchError(where, "the chunks are compressed: agents are sent as they are")
        table = pa.ipc.open_stream(stream).read_all()
        table.validate(full=True)
    except (pa.ArrowException, OSError) as error:
        raise LaunchError(where, "the chunks are no Arrow IPC stream that can be read") from error
    if AGENT_ID not in table.column_names:
        raise LaunchError(where, f"the chunks have no column {AGENT_ID!r}")
    path = folder / f"{group}.arrow"
    # Written aside: workers of an earlier launch may have the file mapped.
    aside = path.with_suffix(".new")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with pa.OSFile(str(aside), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table.combine_chunks())
        aside.rename(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            aside.unlink(missing_ok=True)
        raise LaunchError(where, f"cannot be written on this node: {error.strerror or 'no room'}") from None
    return path


def write_files(folder: Path, chunks: Mapping[str, Sequence[bytes]]) -> dict[str, Path]:
    """Write the populations of all groups that came in pieces. Blocks. Raises LaunchError."""
    return {group: write_file(folder, group, pieces) for group, pieces in chunks.items()}


def run_folder(scratch: Path, run: str) -> Path:
    """Where the files of a run are. Raises ValueError for what is no name of a run, and so might lie elsewhere."""
    if not is_run_name(run):
        raise ValueError(f"{run!r} is no name of a run")
    return scratch / run


def claim_folder(folder: Path) -> None:
    """Make a folder that is ours alone, or go on with the one of an earlier life. Blocks.

    Raises OSError: somebody else's folder, or a link, is there; whoever made it could lead us elsewhere.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
            raise FileExistsError(errno.EEXIST, "is there already and not ours alone", str(folder)) from None


def remove_folder(folder: Path) -> None:
    """Remove what was written, and give the memory of it back. Blocks."""
    shutil.rmtree(folder, ignore_errors=True)
    gc.collect()  # a run and its slots hold one another
    pa.default_memory_pool().release_unused()
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)
