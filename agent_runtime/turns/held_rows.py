"""Rows of one table that are made and handed on together, since one by one they would cost too much."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from agent_runtime.recording import TableBuffer

UNMADE_MAX = 64

MakeRow = Callable[[], tuple[Any, ...]]
"""Makes a row, in the order of its table's names. Raises nothing."""


class HeldRows:
    """Rows of one table, held until they are worth handing on; tuples, which turn into columns at once."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._rows: list[tuple[Any, ...]] = []
        self._unmade: list[MakeRow] = []

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, row: tuple[Any, ...]) -> None:
        """One row, in the order of the names."""
        self._rows.append(row)

    def add_unmade(self, make: MakeRow) -> None:
        """A row that is made soon, with others: some dozens in a run cost half of what they cost one by one."""
        self._unmade.append(make)
        if len(self._unmade) >= UNMADE_MAX:
            self._make()

    def _make(self) -> None:
        unmade, self._unmade = self._unmade, []
        self._rows += [make() for make in unmade]

    async def hand_on(self, buffer: TableBuffer) -> None:
        """Give what is held to the recorder, in columns. Cancelled, it is still held."""
        self._make()
        rows, self._rows = self._rows, []
        if not rows:
            return
        taken = False
        try:
            await buffer.put(dict(zip(self._names, zip(*rows, strict=True), strict=True)), len(rows))
            taken = True
        finally:
            if not taken:
                self._rows[:0] = rows
