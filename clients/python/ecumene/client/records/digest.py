"""The digest of a run: equal where the same happened, whoever hosted it, and however often it was interrupted.

    turns     a line each: agent, turn, simulated time, status, and its actions: name, path, key, value
    state     a line for each entry of the world at the end, but for the books of runtimes
    entries   a line for all that ever happened to each entry that the spec declares

Revisions, wall times, leases, nodes and reasons are left out. Rows that stand twice are one fact: of the writings of a
turn the last one counts, and one that was cut short counts only if there is no other.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ecumene.client.model import EntryKind
from ecumene.client.records.parts import list_parts
from ecumene.client.records.tables import ACTIONS, TURNS, Table, TurnStatus

if TYPE_CHECKING:
    from ecumene.client.world import World

BOOKS = "/runtime"
"""Where runtimes keep their books in a world: no part of what happened there."""
CUT_SHORT = ("the runtime was stopped", "stopped before the world answered")
"""Reasons of turns that stand for none: they are taken again when the run is gone on with."""
_DIGEST_BYTES = 16
_TURN_COLUMNS = ("agent", "turn", "sim_time_ns", "wall_time_ns", "status", "reason")
_VALUE_COLUMNS = ("value_kind", "value_double", "value_int", "value_text", "value_json")
_ACTION_COLUMNS = ("agent", "turn", "seq", "action", "path", "key", *_VALUE_COLUMNS, "commit_revision")


@dataclass(frozen=True, slots=True)
class RunDigest:
    """Three digests in hexadecimal; `str()` is that of all."""

    turns: str
    state: str
    entries: str

    def __str__(self) -> str:
        return _hash([self.turns, self.state, self.entries])


def digest_turns(directory: Path) -> str:
    """The digest of the turns and actions recorded in a run's directory. Needs pyarrow.

    Raises OSError.
    """
    return _hash(f"{agent}\t{turn}\t{line}" for (agent, turn), line in sorted(_read_turns(directory).items()))


async def digest_state(world: World, paths: Sequence[str] = ("/",)) -> str:
    """The digest of all entries at these paths and below them. Raises EcumeneError."""
    lines = []
    for path in paths:
        lines += [line async for line in _list_state(world, path)]
    return _hash(sorted(lines))


async def digest_entries(world: World, entries: Iterable[tuple[str, str]]) -> str:
    """The rolling digest of entries (path, key): of each value that each ever had, in order. Raises EcumeneError.

    What the log does not retain any more is left out; a run whose digest is wanted retains it.
    """
    lines = []
    for path, key in sorted(entries):
        rolled = hashlib.blake2b(digest_size=_DIGEST_BYTES)
        asked = 1
        while asked:
            page = await world.environment(path).read_past(key, from_revision=asked)
            for past in page.values:
                rolled.update(f"{past.type.name}\t{_write_value(past.value)}\n".encode())
            asked = page.next_revision
        lines.append(f"{path}\t{key}\t{rolled.hexdigest()}")
    return _hash(lines)


def _read_turns(directory: Path) -> dict[tuple[str, int], str]:
    """(agent, turn) -> the rest of its line."""
    actions: dict[tuple[str, int, str], list[tuple[int | None, int, str]]] = {}
    for source, row in _read_rows(directory, ACTIONS, _ACTION_COLUMNS):
        line = "\t".join((row["action"], row["path"], row["key"], _write_row_value(row)))
        told = actions.setdefault((row["agent"], row["turn"], source), [])
        told.append((row["commit_revision"], row["seq"], line))
    best: dict[tuple[str, int], tuple[tuple[bool, int], str]] = {}
    for source, row in _read_rows(directory, TURNS, _TURN_COLUMNS):
        name = (row["agent"], row["turn"])
        is_whole = row["status"] != TurnStatus.CANCELLED.value or row["reason"] not in CUT_SHORT
        rank = (is_whole, row["wall_time_ns"])
        if name in best and best[name][0] > rank:
            continue
        # Actions of the same writing: those of another may be of a turn that was cut short.
        written = actions.get((*name, source), [])
        done = {seq: told for commit, seq, told in written if commit == written[-1][0]}
        columns = [str(row["sim_time_ns"] or ""), row["status"], *(done[seq] for seq in sorted(done))]
        best[name] = rank, "\t".join(columns)
    return {name: line for name, (_, line) in best.items()}


def _read_rows(directory: Path, table: Table, columns: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Rows of a table with their source, the older parts of a source first."""
    import pyarrow.parquet as pq

    for part in list_parts(directory, table):
        source = part.name.rpartition("-")[0]
        for row in pq.read_table(part, columns=list(columns)).to_pylist():
            yield source, row


async def _list_state(world: World, path: str) -> AsyncIterator[str]:
    if path == BOOKS or path.startswith(f"{BOOKS}/"):
        return
    environment = world.environment(path)
    async for entry in environment.entries():
        value = _write_value(entry.value)
        if entry.kind is EntryKind.STREAM:
            sequence, items = entry.stream_first, []
            while sequence < entry.stream_next:
                page = await environment.read_stream(entry.key, from_sequence=sequence)
                items += [_write_value(item.value) for item in page.items]
                sequence = page.items[-1].sequence + 1 if page.items else entry.stream_next
            value = "\t".join(items)
        yield f"{path}\t{entry.key}\t{entry.kind.name}\t{value}"
    async for child in environment.children():
        async for line in _list_state(world, child.path):
            yield line


def _write_row_value(row: dict[str, Any]) -> str:
    if row["value_kind"] == "json":
        return f"json {_write_value(json.loads(row['value_json']))}"
    value = next((row[f"value_{kind}"] for kind in ("double", "int", "text") if row[f"value_{kind}"] is not None), None)
    return f"{row['value_kind']} {_write_value(value)}"


def _write_value(value: Any) -> str:
    """A value as text: the same for the same value, whatever the order of fields."""
    if isinstance(value, bytes):
        return value.hex()
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def _hash(lines: Iterable[str]) -> str:
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for line in lines:
        digest.update(line.encode())
        digest.update(b"\n")
    return digest.hexdigest()
