"""Recorders are told of every call."""

from __future__ import annotations

from ecumene.workflows.errors import Failure
from ecumene.workflows.seats import FinishedCall

from agent_runtime.workflows.recording import CallCounts, Recorders


def make_call(failure: Failure | None = None, attempts: int = 1, effects: int = 0) -> FinishedCall:
    return FinishedCall("f", "7", 1, "", "f.7.1", "m:C", "go", failure, attempts, 0.0, 0.1, 0.2, 10, effects)


def test_counts_and_all_recorders() -> None:
    one, two = CallCounts(), CallCounts()
    both = Recorders(one, two)
    both.record(make_call(effects=3))
    both.record(make_call(Failure("RAISED", "x"), attempts=4))
    assert vars(one) == vars(two) == {"ok": 1, "failed": 1, "attempts": 5, "effects": 3}
