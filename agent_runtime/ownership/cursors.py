"""How far a part has come, as the world keeps it: {"through", "rows", "turns"}, and more where turns differ.

    cursors/<part>            {"through": 812, "rows": [0, 5000], "turns": 3}        every agent has had three turns
    cursors/<part>            {…, "slot": 1, "pieces": 2}                            they differ, and stand in
    cursors/<part>.1.0, .1.1  bytes: numbers of 131,072 agents each, packed          pieces of one of two slots

Pieces are written before the cursor that names their slot, and the other slot is left alone meanwhile: whoever reads a
cursor finds the turns that belong to it.
"""

from __future__ import annotations

import asyncio
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from ecumene.client import Json, Value, World

from agent_runtime.model.errors import LaunchError
from agent_runtime.model.parts import Part

PIECE_ROWS = 131_072
SLOTS = 2

Counts = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Cursor:
    """Every event up to `through` has had its effect for every agent of the part; `turns` they had had by then."""

    through: int
    turns: Counts

    @classmethod
    def at_start(cls, part: Part, through: int) -> Cursor:
        """Of a part of whose agents none has had a turn."""
        return cls(through, np.zeros(len(part), dtype=np.int32))


class CursorFile:
    """The cursor of one part behind its owner's fence: written by nobody else."""

    def __init__(self, world: World, path: str, part: Part) -> None:
        """`world`: the fenced handle."""
        self._place = world.environment(path)
        self._part = part
        self._slot: int | None = 0
        """The one that the cursor in the world names; None = not known, a write of it may have failed or not."""
        self._written: list[dict[int, bytes]] = [{} for _ in range(SLOTS)]

    async def read(self) -> Cursor:
        """What the last owner left. Raises EcumeneError; LaunchError if it is of other rows."""
        name = self._part.name
        known = (await self._place.get(name)).value
        rows = [self._part.first, self._part.end]
        if not isinstance(known, dict) or known.get("rows") != rows:
            raise LaunchError(f"parts.{name}", f"the run has another part of this name, not of rows {rows}")
        try:
            return await self._read_turns(known)
        except (KeyError, TypeError, ValueError, OverflowError, zlib.error) as error:
            raise LaunchError(f"parts.{name}", "its cursor in the world is none that a runtime has written") from error

    async def _read_turns(self, known: dict[str, Any]) -> Cursor:
        through, turns, rows = int(known["through"]), known.get("turns"), len(self._part)
        if turns is not None:
            return Cursor(through, np.full(rows, turns, dtype=np.int32))
        slot, pieces = read_slot(known), range(0, rows, PIECE_ROWS)
        names = [f"{self._part.name}.{slot}.{piece}" for piece in range(len(pieces))]
        entries = await asyncio.gather(*map(self._place.get, names))
        packed = b"".join(zlib.decompress(entry.value) for entry in entries)  # type: ignore[arg-type]
        found = np.frombuffer(packed, dtype="<i4").astype(np.int32)
        if len(found) != rows:
            raise ValueError(f"{len(found)} numbers of turns for {rows} agents")
        self._slot = slot
        return Cursor(through, found)

    async def write(self, cursor: Cursor) -> None:
        """Keep a cursor. Raises EcumeneError, FencedError among them."""
        document = describe_cursor(self._part, cursor)
        if document["turns"] is None:
            slot = (await self._find_slot() + 1) % SLOTS
            document |= {"slot": slot, "pieces": await self._write_pieces(slot, cursor.turns)}
        known, self._slot = self._slot, None
        await self._place.set(self._part.name, document)
        self._slot = known if document["turns"] is not None else read_slot(document)

    async def _find_slot(self) -> int:
        """The slot that the cursor in the world names, which has to be left alone."""
        if self._slot is None:
            self._slot = read_slot((await self._place.get(self._part.name)).value)
        return self._slot

    async def _write_pieces(self, slot: int, turns: Counts) -> int:
        """Write what differs from what surely stands in the slot; returns the number of pieces."""
        written, name = self._written[slot], self._part.name
        pieces = [
            zlib.compress(turns[start : start + PIECE_ROWS].astype("<i4").tobytes(), 1)
            for start in range(0, len(turns), PIECE_ROWS)
        ]
        changed = {number: piece for number, piece in enumerate(pieces) if written.get(number) != piece}
        for number in changed:
            written.pop(number, None)
        await asyncio.gather(*(self._place.set(f"{name}.{slot}.{number}", piece) for number, piece in changed.items()))
        written |= changed
        return len(pieces)


def read_slot(document: Value) -> int:
    """The slot that a cursor names; the first if its turns stand in none."""
    slot = document.get("slot") if isinstance(document, dict) else None
    return slot if isinstance(slot, int) and 0 <= slot < SLOTS else 0


def describe_cursor(part: Part, cursor: Cursor) -> dict[str, Json]:
    """The entry of a cursor; its `turns` are None if they differ, and stand in pieces."""
    turns = cursor.turns
    is_even = not len(turns) or bool((turns == turns[0]).all())
    common = (int(turns[0]) if len(turns) else 0) if is_even else None
    return {"through": cursor.through, "rows": [part.first, part.end], "turns": common}
