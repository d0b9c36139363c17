"""Every call ends, whatever its method does: results too deep, functions that hang, defects of the stage."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from ecumene import workflows
from ecumene.workflows import StageLimits
from ecumene.workflows.limits import VALUE_DEPTH_MAX
from ecumene.workflows.values import Packing, check_depth, fill_refs

from tests.workflow_actors import BEGUN, GATES, HARMS, Harmful, Note, Teller


@pytest.fixture
def gate() -> Iterator[str]:
    """The key of functions that hang until the end of the test."""
    key = uuid.uuid4().hex
    GATES[key] = threading.Event()
    yield key
    GATES.pop(key).set()


@pytest.mark.parametrize("depth", [10, 100, 400, 1200])
def test_results_within_results_end_as_a_value_or_as_too_deep(depth: int) -> None:
    with workflows.local():
        teller = Teller().to_dist()
        nested = teller.nest(teller, depth)
        if depth < VALUE_DEPTH_MAX:
            value: Any = nested.get(timeout_s=60)
            for _ in range(depth):
                (value,) = value
            assert value == 0
        else:
            with pytest.raises(workflows.ValueTooLargeError, match="VALUE_DEPTH_MAX is 128"):
                nested.get(timeout_s=60)
        assert teller.tell("alive").get(timeout_s=20) == "alive"


def test_no_value_of_any_kind_is_deeper_than_the_limit() -> None:
    def grow(wrap: Any, times: int) -> Any:
        value: Any = 0
        for _ in range(times):
            value = wrap(value)
        return value

    wraps: list[tuple[Any, int, int]] = [
        (lambda value: [value], 1, 1),
        (lambda value: {"a": value}, 1, 1),
        (lambda value: (value,), 2, 1),
        (lambda value: {1: value}, 3, 1),
        (lambda value: Note("n", more={"a": value}), 4, 4),
    ]
    for wrap, levels, first in wraps:
        # Two levels are kept for the marks of what stands innermost.
        fits = (VALUE_DEPTH_MAX - 2 - first) // levels + 1
        check_depth(Packing(str).pack(grow(wrap, fits)))  # type: ignore[arg-type]
        with pytest.raises(workflows.ValueTooLargeError, match="VALUE_DEPTH_MAX is 128"):
            Packing(str).pack(grow(wrap, fits + 1))  # type: ignore[arg-type]
    whole = grow(lambda value: [value], VALUE_DEPTH_MAX)
    with pytest.raises(workflows.ValueTooLargeError):
        fill_refs([{"$ref": 0}], [whole])
    assert fill_refs({"$ref": 0}, [whole]) is whole
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(workflows.ValueTooLargeError, match="contains itself"):
        Packing(str).pack(endless)  # type: ignore[arg-type]


def test_functions_that_hang_leave_their_slots_to_others(gate: str) -> None:
    with workflows.local(stage_limits=StageLimits(blocking_running_max=2, blocking_waiting_max=10)):
        hanging, others = workflows.spawn(Teller, 6), workflows.spawn(Teller, 2)
        hung = [teller.with_options(timeout_s=0.2).hang(gate) for teller in hanging]
        for call in hung:
            with pytest.raises(workflows.CallTimeoutError):
                call.get(timeout_s=20)
        assert [teller.tell("free").get(timeout_s=20) for teller in others] == ["free", "free"]


def test_functions_that_hang_are_bounded_and_a_wait_for_a_slot_counts(gate: str) -> None:
    with workflows.local(stage_limits=StageLimits(blocking_running_max=1, blocking_waiting_max=1)):
        hanging, late = workflows.spawn(Teller, 2), Teller().to_dist()
        # Long enough for the first to be in its slot before it is given up, on a busy machine too.
        hung = [teller.with_options(timeout_s=1.0).hang(gate) for teller in hanging]
        for call in (*hung, late.with_options(timeout_s=0.2).tell("no slot is left")):
            with pytest.raises(workflows.CallTimeoutError):
                call.get(timeout_s=20)
        waits = late.tell("later")
        GATES[gate].set()
        assert waits.get(timeout_s=20) == "later"


def test_a_defect_of_the_stage_is_the_failure_of_one_call() -> None:
    with workflows.local() as flow:
        teller = Teller().to_dist()
        assert teller.tell(0).get() == 0
        backend: Any = flow._backend
        find_caller = backend.find_caller

        def fail(message: Any) -> Any:
            backend.find_caller = find_caller
            raise ZeroDivisionError

        backend.find_caller = fail
        broken, after = teller.tell(1), teller.tell(2)
        with pytest.raises(workflows.CallRefusedError, match="a defect of the host: ZeroDivisionError"):
            broken.get(timeout_s=20)
        assert after.get(timeout_s=20) == 2


@pytest.mark.parametrize("method", ["raise_", "raise_softly"])
def test_whatever_a_method_raises_is_the_failure_of_one_call(method: str) -> None:
    with workflows.local():
        harmful = Harmful().to_dist()
        for harm in (*HARMS, *(["leave"] if method == "raise_" else [])):
            with pytest.raises(workflows.CallFailedError) as failed:
                getattr(harmful, method)(harm).get(timeout_s=20)
            assert str(failed.value).encode() and len(str(failed.value)) < 5000
            assert harmful.say(harm).get(timeout_s=20) == harm


def test_a_method_that_cancels_its_own_task_fails_alone() -> None:
    with workflows.local():
        harmful = Harmful().to_dist()
        for timed in (harmful, harmful.with_options(timeout_s=30)):
            with pytest.raises(workflows.CallFailedError, match="CancelledError"):
                timed.cancel_itself().get(timeout_s=20)
            assert harmful.say("alive").get(timeout_s=20) == "alive"


def test_a_coroutine_that_takes_no_notice_of_its_time_is_told_late_and_keeps_only_its_actor_busy(gate: str) -> None:
    with workflows.local():
        harmful, other = workflows.spawn(Harmful, 2)
        with pytest.raises(workflows.CallTimeoutError):
            harmful.with_options(timeout_s=0.1).ignore_its_time(gate).get(timeout_s=20)
        with pytest.raises(LookupError, match="cut short"):
            other.with_options(timeout_s=0.1).raise_late().get(timeout_s=20)
        behind = harmful.say("later")
        assert other.say("free").get(timeout_s=20) == "free"
        GATES[gate].set()
        assert behind.get(timeout_s=20) == "later"


@pytest.mark.parametrize("has_begun", [False, True])
@pytest.mark.timeout(60)
def test_a_flow_ends_whatever_its_methods_ignore(gate: str, has_begun: bool) -> None:
    with pytest.raises(KeyError), workflows.local():
        Harmful().to_dist().ignore_its_time(gate)
        while has_begun and gate not in BEGUN:
            time.sleep(0.01)
        raise KeyError("enough")


def test_options_that_no_host_takes_are_refused_where_they_are_given() -> None:
    with workflows.local():
        teller = Teller().to_dist()
        for options in ({"retry": 10_001}, {"retry": -1}, {"timeout_s": float("nan")}, {"timeout_s": -1}):
            with pytest.raises(ValueError, match="is a number"):
                teller.with_options(**options)  # type: ignore[arg-type]
            with pytest.raises(ValueError, match="is a number"):
                workflows.spawn(Teller, 1, **options)
