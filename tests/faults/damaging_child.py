"""A process that damages a world's file, one place at a time, and reads all of the world as a server's start does.

python -m tests.faults.damaging_child DIRECTORY SEED FIRST COUNT     a line a damage: its number and what came of it

told: opening or reading it failed, with what is wrong; harmless: everything was as before; WRONG: something was not.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

from env_server.model.limits import Limits
from env_server.storage import layout
from env_server.storage.errors import StorageError
from env_server.storage.lmdb_log import LmdbCommitLog
from tests.told_world import tell_world

PAGE_BYTES = 4096
SECTOR_BYTES = 512


def damage(content: bytearray, rng: random.Random) -> str:
    """Flips a bit, or tears a page: some of its sectors are those of before, of another page, or zeros."""
    kind = rng.choice(["flip", "zeros", "another page"])
    if kind == "flip":
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        return kind
    page = rng.randrange(len(content) // PAGE_BYTES) * PAGE_BYTES
    start = page + rng.randrange(PAGE_BYTES // SECTOR_BYTES) * SECTOR_BYTES
    size = page + PAGE_BYTES - start
    other = rng.randrange(len(content) // PAGE_BYTES) * PAGE_BYTES + start - page
    content[start : start + size] = bytes(size) if kind == "zeros" else content[other : other + size]
    return kind


def read_world(directory: Path) -> str:
    """All that the world tells, as text."""
    log = LmdbCommitLog.open(directory, Limits(map_bytes=1 << 30), lambda: "new")
    try:
        return json.dumps(tell_world(log), sort_keys=True)
    finally:
        log.close()


def main(directory: Path, seed: int, first: int, count: int) -> None:
    """Damages `first` to `count` - 1; the file is whole again afterwards, unless the process ends before."""
    data = directory / layout.DATA_FILE
    whole = (directory / "whole").read_bytes()
    expected = (directory / "told").read_text()
    for number in range(first, count):
        content = bytearray(whole)
        kind = damage(content, random.Random(f"{seed}-{number}"))
        data.write_bytes(content)
        try:
            what = "harmless" if read_world(directory) == expected else f"WRONG({kind})"
        except StorageError:
            what = "told"
        print(number, what, flush=True)
    data.write_bytes(whole)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
