"""Local flows: where a failure came from, what is refused, circles of waits, and calls that take too long."""

from __future__ import annotations

import gc
import logging
import time
from collections.abc import Iterator

import pytest
from ecumene import workflows
from ecumene.workflows import StageLimits

from tests.workflow_actors import Counter, Teller

QUICK = StageLimits(circle_check_s=0.05)


@pytest.fixture
def flow() -> Iterator[workflows.Flow]:
    """An open local flow, for blocking code."""
    with workflows.local(stage_limits=QUICK) as flow:
        yield flow


def test_a_failure_says_where_it_came_from_and_what_it_came_through(flow: workflows.Flow) -> None:
    teller, other = workflows.spawn(Teller, 2)
    failed = other.tell([teller.tell(other.fail("too late"))])
    with pytest.raises(ValueError, match="too late") as caught:
        failed.get()
    error = caught.value
    assert isinstance(error, workflows.CallFailedError)
    assert (error.kind, error.origin.method, error.origin.host) == ("ValueError", "fail", "local")
    assert error.origin.class_name == "tests.workflow_actors:Teller"
    assert error.origin.place.startswith("workflow_actors.py:")
    assert error.failure.causes == ("KeyError: 'inner'",)
    assert error.failure.through == ("Teller.tell", "Teller.tell")
    assert str(error).startswith("Teller.fail of ") and "caused by KeyError" in str(error) and "\n" not in str(error)


def test_a_failure_in_a_nested_call_keeps_its_origin(flow: workflows.Flow) -> None:
    teller, other = workflows.spawn(Teller, 2)
    with pytest.raises(ValueError) as caught:
        teller.ask(other, "fail", "inside").get()
    assert isinstance(caught.value, workflows.CallFailedError)
    assert caught.value.origin.method == "fail"
    assert caught.value.failure.through == ("Teller.ask",)


def test_the_first_failed_argument_is_told_whichever_failed_first(flow: workflows.Flow) -> None:
    quick, slow, teller = workflows.spawn(Teller, 3)
    slow.sleep(0.1)
    with pytest.raises(ValueError, match="slow"):
        teller.tell([slow.fail("slow"), quick.fail("quick")]).get()


def test_a_failed_constructor_fails_every_call(flow: workflows.Flow) -> None:
    (broken,) = workflows.spawn(Teller, 1, "it", fail=True)
    for call in (broken.tell(1), broken.tell(2)):
        with pytest.raises(LookupError, match="no it") as caught:
            call.get()
        assert isinstance(caught.value, workflows.CallFailedError)
        assert caught.value.origin.method == ""
    with pytest.raises(LookupError, match="no it"):
        broken.tell(3).get()


def test_a_call_after_a_failed_one_runs(flow: workflows.Flow) -> None:
    teller = Teller().to_dist()
    failed = teller.fail("once")
    assert teller.tell(1).get() == 1
    with pytest.raises(ValueError):
        failed.get()


def test_methods_that_are_not_there_are_told_when_they_are_named(flow: workflows.Flow) -> None:
    teller = Teller().to_dist()
    for name, problem in [("nothing", "does not exist"), ("_made_with", "not for callers"), ("world", "not a method")]:
        with pytest.raises(AttributeError, match=problem):
            getattr(teller, name)
    with pytest.raises(AttributeError, match="__call__"):
        teller(3)


def test_what_cannot_be_sent_is_refused_before_anything_is(flow: workflows.Flow) -> None:
    teller = Teller().to_dist()
    with pytest.raises(workflows.ValueRefusedError):
        teller.tell(object())
    with pytest.raises(workflows.ValueTooLargeError, match="VALUE_BYTES_MAX is 1000000"):
        teller.tell("x" * 1_000_001)
    with pytest.raises(workflows.ValueRefusedError, match="not registered"):
        teller.unregistered().get()
    with pytest.raises(workflows.ValueTooLargeError, match="its result takes"):
        teller.make_bytes(1_000_000).get()
    assert teller.all_heard().get() == []

    class Inside(workflows.Actor):
        pass

    with pytest.raises(workflows.ValueRefusedError, match="inside a function"):
        Inside().to_dist()


def test_a_wait_for_oneself_is_refused_instead_of_hanging(flow: workflows.Flow) -> None:
    teller = Teller().to_dist()
    with pytest.raises(workflows.CircularWaitError, match="would wait for itself"):
        teller.ask_itself(teller).get(timeout_s=10)
    assert teller.tell("alive").get() == "alive"


@pytest.mark.parametrize("method", ["ask", "ask_softly"])
def test_circles_of_waits_are_refused(flow: workflows.Flow, method: str) -> None:
    one, two, three = workflows.spawn(Teller, 3)
    with pytest.raises(workflows.CircularWaitError):
        getattr(one, method)(two, method, three, method, one, "tell", 1).get(timeout_s=10)
    assert [teller.tell("alive").get() for teller in (one, two, three)] == ["alive"] * 3


def test_calls_back_that_nobody_waits_for_are_no_circle(flow: workflows.Flow) -> None:
    one, two = workflows.spawn(Teller, 2)
    assert one.ask(two, "send", one, "tell", "back").get() is None
    assert one.ask(two, "sleep", 0.2).get() == 0.2
    assert one.all_heard().get() == ["back"]


def test_a_call_that_takes_too_long_fails_and_the_order_stays(flow: workflows.Flow) -> None:
    teller = Teller().to_dist()
    quick = teller.with_options(timeout_s=0.1)
    late, softly = quick.sleep(0.4), quick.tell_later("never", 5)
    begun = time.monotonic()
    with pytest.raises(workflows.CallTimeoutError, match="longer than its timeout_s") as caught:
        late.get()
    assert isinstance(caught.value, TimeoutError) and caught.value.origin.method == "sleep"
    with pytest.raises(TimeoutError):
        softly.get()
    assert time.monotonic() - begun >= 0.3, "the function was still running when the next call began"
    assert teller.all_heard().get() == []


def test_a_reader_that_waits_no_longer_leaves_the_call_alone(flow: workflows.Flow) -> None:
    teller = Teller().to_dist()
    slept = teller.sleep(0.3)
    with pytest.raises(TimeoutError, match="it goes on"):
        slept.get(timeout_s=0.05)
    assert slept.get() == 0.3


def test_a_failed_call_that_nobody_waits_for_is_logged(flow: workflows.Flow, caplog: pytest.LogCaptureFixture) -> None:
    teller = Teller().to_dist()
    with caplog.at_level(logging.WARNING, "ecumene.workflows"):
        teller.fail("unheard")
        gc.collect()
        teller.tell(1).get()
    assert "Teller.fail" in caplog.text and "unheard" in caplog.text


def test_placeholders_of_another_flow_are_refused(flow: workflows.Flow) -> None:
    teller = Teller().to_dist()
    with workflows.local():
        foreign = Teller().to_dist().tell(1)
        with pytest.raises(workflows.ValueRefusedError, match="another flow"):
            teller.tell(foreign)
        foreign.get()


def test_there_is_no_world_in_a_local_flow(flow: workflows.Flow) -> None:
    counter = Counter().to_dist()
    with pytest.raises(workflows.NoWorldError, match=r"workflows\.connect"):
        counter.increment("/x", "n").get()
    with pytest.raises(workflows.CallRefusedError, match="for coroutine methods"):
        counter.look().get()
    with pytest.raises(workflows.CallRefusedError, match="for methods of actors"):
        _ = Counter().effects
