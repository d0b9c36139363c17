"""Why something cannot be recorded.

RecordingError
├── BatchShapeError        this batch is malformed: a defect of the caller, nothing was taken
├── RecordingFullError     too much waits for the disk: nothing was taken, wait and try again
├── SourceInUseError       another writer has this name
└── RecordingFailedError   the disk or the conversion failed; nothing is recorded any more
"""

from __future__ import annotations

from pathlib import Path


class RecordingError(Exception):
    """Base of all failures to record."""


class BatchShapeError(RecordingError):
    """A batch with an unknown column, a missing one, or columns of unequal length."""

    def __init__(self, table: str, problem: str) -> None:
        super().__init__(f"batch of {table}: {problem}")
        self.table = table


class RecordingFullError(RecordingError):
    """A limit of what waits for the disk is reached; `limit` names it. Nothing of the batch was taken."""

    def __init__(self, table: str, limit: str, *, pending: int, asked: int, bound: int) -> None:
        super().__init__(f"{table}: {pending} + {asked} exceeds {limit} = {bound}: the disk is behind")
        self.table = table
        self.limit = limit
        self.pending = pending
        self.asked = asked
        self.bound = bound


class SourceInUseError(RecordingError):
    """A living writer has this source's name in this directory."""

    def __init__(self, directory: Path, source: str) -> None:
        super().__init__(f"{directory}: another writer records as {source!r}")
        self.directory = directory
        self.source = source


class RecordingFailedError(RecordingError):
    """Writing failed, for good: rows since the last closed part are not on disk. `__cause__` is why."""

    def __init__(self, table: str, problem: str) -> None:
        super().__init__(f"recording of {table} failed: {problem}")
        self.table = table
        self.problem = problem
