"""The ledger keeps what is referred to, within its bounds."""

from __future__ import annotations

from typing import Any

import pytest
from ecumene.workflows import FlowFullError
from ecumene.workflows.calls import Call
from ecumene.workflows.ledger import Ledger
from ecumene.workflows.limits import FlowLimits
from ecumene.workflows.messages import read_outcome
from ecumene.workflows.placeholders import Placeholder
from ecumene.workflows.targets import Target

TARGET = Target("wf.1.1", "ann", "debate:Debater", None)


def add(ledger: Ledger, *needs: Call) -> Call:
    """One more call, which needs others."""
    pins = [Placeholder(need) for need in needs]
    caller: Any = None
    call = Call(caller, ledger.next_number(), TARGET, "call", "answer", "{}", pins, 0)
    ledger.add(call)
    return call


def numbers(calls: list[Call]) -> list[int]:
    return [call.number for call in calls]


def test_a_result_stays_until_it_is_dropped_and_then_it_is_gone() -> None:
    ledger = Ledger(FlowLimits())
    call = add(ledger)
    assert (ledger.pending, len(ledger)) == (1, 1)
    assert ledger.finish(call, "x" * 100) == []
    assert (ledger.pending, ledger.results_bytes) == (0, 100)
    assert numbers(ledger.drop([call.number, 77])) == [1]
    assert (len(ledger), ledger.results_bytes) == (0, 0)
    assert ledger.drop([call.number]) == []


def test_what_was_dropped_before_it_ended_goes_when_it_ends() -> None:
    ledger = Ledger(FlowLimits())
    call = add(ledger)
    assert ledger.drop([call.number]) == []
    assert numbers(ledger.finish(call, "x")) == [1]
    assert len(ledger) == 0


def test_the_number_of_calls_is_bounded() -> None:
    ledger = Ledger(FlowLimits(results_max=2))
    add(ledger)
    add(ledger)
    with pytest.raises(FlowFullError, match="2 calls are under way or referred to; results_max is 2"):
        add(ledger)
    assert ledger.sent == 2


def test_the_oldest_expire_when_the_bytes_are_too_many() -> None:
    ledger = Ledger(FlowLimits(results_bytes_max=250))
    first, second, third = add(ledger), add(ledger), add(ledger)
    ledger.finish(second, "x" * 100)
    ledger.finish(first, "x" * 100)
    assert numbers(ledger.finish(third, None, 100)) == [2], "the one that ended first"
    assert second.is_done and second.size == 0
    failure = read_outcome(second.text or "").failure
    assert failure is not None and failure.code == "RESULT_EXPIRED" and "results_bytes_max is 250" in failure.text
    assert (ledger.expired, ledger.results_bytes) == (1, 200)


def test_what_a_call_under_way_needs_does_not_expire_and_new_calls_are_refused_meanwhile() -> None:
    ledger = Ledger(FlowLimits(results_bytes_max=250))
    needed = add(ledger)
    waiting = add(ledger, needed)
    assert ledger.finish(needed, "x" * 300) == []
    with pytest.raises(FlowFullError, match="results_bytes_max is 250"):
        add(ledger)
    assert numbers(ledger.finish(waiting, "x")) == [needed.number], "it is needed no more"
    add(ledger)
