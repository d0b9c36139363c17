"""The table keeps what is referred to, within its bounds."""

from __future__ import annotations

from typing import Any

import pytest
from ecumene.workflows import FlowFullError
from ecumene.workflows.call_table import CallTable
from ecumene.workflows.calls import Call
from ecumene.workflows.limits import FlowLimits
from ecumene.workflows.messages import read_outcome
from ecumene.workflows.placeholders import Placeholder
from ecumene.workflows.targets import Target

TARGET = Target("wf.1.1", "ann", "debate:Debater", None)


def add(table: CallTable, *needs: Call) -> Call:
    """One more call, which needs others."""
    pins = [Placeholder(need) for need in needs]
    caller: Any = None
    call = Call(caller, table.next_number(), TARGET, "call", "answer", "{}", pins, 0)
    table.add(call)
    return call


def numbers(calls: list[Call]) -> list[int]:
    return [call.number for call in calls]


def test_a_result_stays_until_it_is_dropped_and_then_it_is_gone() -> None:
    table = CallTable(FlowLimits())
    call = add(table)
    assert (table.pending, len(table)) == (1, 1)
    assert table.finish(call, "x" * 100) == []
    assert (table.pending, table.results_bytes) == (0, 100)
    assert numbers(table.drop([call.number, 77])) == [1]
    assert (len(table), table.results_bytes) == (0, 0)
    assert table.drop([call.number]) == []


def test_what_was_dropped_before_it_ended_goes_when_it_ends() -> None:
    table = CallTable(FlowLimits())
    call = add(table)
    assert table.drop([call.number]) == []
    assert numbers(table.finish(call, "x")) == [1]
    assert len(table) == 0


def test_the_number_of_calls_is_bounded() -> None:
    table = CallTable(FlowLimits(results_max=2))
    add(table)
    add(table)
    with pytest.raises(FlowFullError, match="2 calls are under way or referred to; results_max is 2"):
        add(table)
    assert table.sent == 2


def test_the_oldest_expire_when_the_bytes_are_too_many() -> None:
    table = CallTable(FlowLimits(results_bytes_max=250))
    first, second, third = add(table), add(table), add(table)
    table.finish(second, "x" * 100)
    table.finish(first, "x" * 100)
    assert numbers(table.finish(third, None, 100)) == [2], "the one that ended first"
    assert second.is_done and second.size == 0
    failure = read_outcome(second.text or "").failure
    assert failure is not None and failure.code == "RESULT_EXPIRED" and "results_bytes_max is 250" in failure.text
    assert (table.expired, table.results_bytes) == (1, 200)


def test_what_a_call_under_way_needs_does_not_expire_and_new_calls_are_refused_meanwhile() -> None:
    table = CallTable(FlowLimits(results_bytes_max=250))
    needed = add(table)
    waiting = add(table, needed)
    assert table.finish(needed, "x" * 300) == []
    with pytest.raises(FlowFullError, match="results_bytes_max is 250"):
        add(table)
    assert numbers(table.finish(waiting, "x")) == [needed.number], "it is needed no more"
    add(table)
