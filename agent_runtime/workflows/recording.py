"""Where finished calls are told: the seam for records of turns."""

from __future__ import annotations

from typing import Protocol

from ecumene.workflows.stage import FinishedCall


class Recorder(Protocol):
    """Is told of each call once, when its outcome is durable. It must be quick and must not raise."""

    def record(self, call: FinishedCall) -> None:
        """A call has ended."""


class CallCounts:
    """Counts calls, for the last line of a host."""

    def __init__(self) -> None:
        self.ok = 0
        self.failed = 0
        self.attempts = 0
        self.effects = 0

    def record(self, call: FinishedCall) -> None:
        """A call has ended."""
        if call.failure is None:
            self.ok += 1
        else:
            self.failed += 1
        self.attempts += call.attempts
        self.effects += call.effects


class Recorders:
    """Several recorders as one."""

    def __init__(self, *recorders: Recorder) -> None:
        self._recorders = recorders

    def record(self, call: FinishedCall) -> None:
        """A call has ended."""
        for recorder in self._recorders:
            recorder.record(call)
