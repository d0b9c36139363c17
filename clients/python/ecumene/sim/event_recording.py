"""Records the events that a run's conductor sees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from ecumene.client.records import EVENTS, close_part, list_parts, name_part

_STAGING = ".staging"


class EventRecorder:
    """Writes events of one run, a part a call: for the few that a conductor sees in a round."""

    def __init__(self, directory: Path, *, run: str, source: str = "conductor") -> None:
        """`source` is this writer alone; parts go on where an earlier one of that name ended.

        Raises PartNameError, OSError.
        """
        name_part(source, 1)
        self._directory = directory
        self._run = run
        self._source = source
        self._staging = directory / _STAGING / source
        for folder in (self._staging, directory / EVENTS.name):
            folder.mkdir(parents=True, exist_ok=True)
        self._number = max(list_parts(directory, EVENTS, source).values(), default=0)

    def record(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Put events durably on disk: rows of EVENTS without `run`; nullable columns may be left out.

        Blocks for one write. Raises OSError, and pyarrow.ArrowInvalid or ArrowTypeError for a row that
        does not fit the table.
        """
        if not rows:
            return
        table = pa.Table.from_pylist([{"run": self._run, **row} for row in rows], schema=EVENTS.schema)
        self._number += 1
        target = self._directory / EVENTS.name / name_part(self._source, self._number)
        close_part(table, target, self._staging)
