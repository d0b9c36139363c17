"""Recorders are told of every call."""

from __future__ import annotations

from ecumene.workflows.errors import Failure
from ecumene.workflows.seats import FinishedCall

from agent_runtime.workflows.recording import CallCounts, Recorders


def make_call(failure: Failure | None = None, attempts: int = 1, effects: int = 0) -> FinishedCall:
    return FinishedCall(
        flow="f",
        caller="7",
        number=1,
        lane="",
        actor="f.7.1",
        class_name="m:C",
        method="go",
        do="call",
        turn=1,
        revision=3,
        observed_at_ns=4,
        failure=failure,
        attempts=attempts,
        arrived_s=0.0,
        started_s=0.1,
        ended_s=0.2,
        result_bytes=10,
        effects=effects,
    )


def test_counts_and_all_recorders() -> None:
    one, two = CallCounts(), CallCounts()
    both = Recorders(one, two)
    both.record(make_call(effects=3))
    both.record(make_call(Failure("RAISED", "x"), attempts=4))
    assert vars(one) == vars(two) == {"ok": 1, "failed": 1, "attempts": 5, "effects": 3}
