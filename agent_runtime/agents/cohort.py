"""The agents of one group that live in one worker, in columns: a row costs some 20 bytes until it is woken."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from agent_runtime.model.errors import LaunchError

AGENT_ID = "agent_id"
AGENT_ID_PATTERN = r"^[A-Za-z0-9._-]{1,64}$"

RANKED_ROWS = 1_000
"""So many rows at once are worth that all are ranked, once."""
Rows = npt.NDArray[np.int32]


class Cohort:
    """Ids and profiles of agents, by row. The file is mapped, not read: rows cost no memory of their own."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table
        ids = table.column(AGENT_ID).combine_chunks()
        self._ids: pa.Array = ids.chunk(0) if isinstance(ids, pa.ChunkedArray) else ids
        self._has_attributes = table.num_columns > 1
        self._rows_of: dict[str, int] | None = None
        self._ranks: Rows | None = None

    def __len__(self) -> int:
        return len(self._ids)

    def select_ids(self, rows: Rows) -> pa.Array:
        """Ids of some rows, in their order."""
        count = len(rows)
        if count and int(rows[-1]) - int(rows[0]) == count - 1 and bool((np.diff(rows) == 1).all()):
            return self._ids.slice(int(rows[0]), count)
        # From its bytes: of what may be one of pandas, pyarrow asks that, which is half a second to import.
        places = pa.Array.from_buffers(pa.int32(), count, [None, pa.py_buffer(np.ascontiguousarray(rows, np.int32))])
        return self._ids.take(places)

    def read_id(self, row: int) -> str:
        """Id of one row."""
        return str(self._ids[row].as_py())

    def list_ids(self) -> list[str]:
        """Ids of all rows; what comes is not kept here."""
        ids: list[str] = self._ids.to_pylist()
        return ids

    def sort_rows(self, rows: Rows) -> Rows:
        """Rows in the order of their ids. The first call for many ranks all ids."""
        if len(rows) < 2:
            return rows
        if self._ranks is None and len(rows) < RANKED_ROWS:
            ids = self.select_ids(rows).to_pylist()
            return rows[sorted(range(len(ids)), key=ids.__getitem__)]
        if self._ranks is None:
            import pyarrow.compute as pc  # it would slow every worker's start

            self._ranks = np.empty(len(self), dtype=np.int32)
            self._ranks[pc.sort_indices(self._ids).to_numpy()] = np.arange(len(self), dtype=np.int32)
        return rows[np.argsort(self._ranks[rows])]

    def read_profile(self, row: int) -> Mapping[str, Any]:
        """Attributes of one row, without its id."""
        if not self._has_attributes:
            return {}
        profile: dict[str, Any] = self._table.slice(row, 1).to_pylist()[0]
        del profile[AGENT_ID]
        return profile

    def find_row(self, agent_id: str) -> int | None:
        """Row of an agent; None if it does not live here. The first call indexes all ids."""
        if self._rows_of is None:
            self._rows_of = {known: row for row, known in enumerate(self._ids.to_pylist())}
        return self._rows_of.get(agent_id)

    def search_row(self, agent_id: str) -> int | None:
        """The same for one agent now and then: goes over the ids instead of indexing them."""
        if self._rows_of is not None:
            return self._rows_of.get(agent_id)
        import pyarrow.compute as pc  # it would slow every worker's start

        row = pc.index(self._ids, value=pa.scalar(agent_id, self._ids.type)).as_py()
        return None if row < 0 else int(row)


def split_rows(rows: Rows, size: int) -> Iterator[Rows]:
    """Pieces of at most `size` rows (or of what belongs to rows), in order."""
    return (rows[start : start + size] for start in range(0, len(rows), size))


def open_agents(path: Path, rows: tuple[int, int] | None = None) -> pa.Table:
    """The rows of an Arrow IPC file, mapped into memory.

    Raises LaunchError if it cannot be read, has no text column `agent_id`, or has fewer rows.
    """
    try:
        table = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
    except (OSError, pa.ArrowException) as error:
        raise LaunchError(str(path), f"not an Arrow IPC file that can be read: {error}") from error
    if AGENT_ID not in table.column_names or not _is_text(table.schema.field(AGENT_ID).type):
        raise LaunchError(str(path), f"has no text column {AGENT_ID!r}")
    start, stop = (0, len(table)) if rows is None else rows
    if not 0 <= start <= stop <= len(table):
        raise LaunchError(str(path), f"has {len(table)} rows; [{start}, {stop}) is not among them")
    return table.slice(start, stop - start)


def check_ids(path: Path, table: pa.Table) -> None:
    """Raises LaunchError unless all ids are 1-64 characters of A-Z a-z 0-9 . _ - and none is there twice."""
    import pyarrow.compute as pc  # for the daemon alone; it would slow every worker's start

    ids = table.column(AGENT_ID)
    fits = pc.match_substring_regex(ids, AGENT_ID_PATTERN)
    if ids.null_count or not pc.all(fits, min_count=0).as_py():
        bad = pc.index(pc.fill_null(fits, False), False).as_py()
        raise LaunchError(str(path), f"row {bad}: {ids[bad].as_py()!r} is no agent id: 1-64 of A-Z a-z 0-9 . _ -")
    if pc.count_distinct(ids).as_py() != len(ids):
        raise LaunchError(str(path), "an agent id stands in two rows")


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
