"""Local flows: order, parallelism along the messages, values, scripts. The same promises hold in a world."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator

import pytest
from ecumene import workflows
from ecumene.workflows import StageLimits

from tests.workflow_actors import Note, Teller, Verdict

QUICK = StageLimits(circle_check_s=0.05)


@pytest.fixture
def flow() -> Iterator[workflows.Flow]:
    """An open local flow, for blocking code."""
    with workflows.local(stage_limits=QUICK) as flow:
        yield flow


def test_without_a_flow_an_actor_is_a_plain_object() -> None:
    teller = Teller("plain")
    assert teller.tell(3) == 3
    assert teller.all_heard() == [3]
    assert teller.actor_id == ""


def test_a_call_returns_at_once_and_only_the_reader_waits(flow: workflows.Flow) -> None:
    teller = Teller().to_dist()
    begun = time.monotonic()
    slept = teller.sleep(1.0)
    assert time.monotonic() - begun < 0.8
    assert not slept.done
    assert slept.get() == 1.0
    assert slept.done and time.monotonic() - begun >= 1.0


def test_calls_that_do_not_need_each_other_run_side_by_side(flow: workflows.Flow) -> None:
    tellers = workflows.spawn(Teller, 8)
    begun = time.monotonic()
    total = tellers[0].total([teller.sleep(1.0) for teller in tellers[1:]])
    assert total.get() == pytest.approx(7.0)
    assert time.monotonic() - begun < 7.0 / 2


def test_an_actor_runs_one_call_at_a_time_also_for_many_callers(flow: workflows.Flow) -> None:
    busy, *others = workflows.spawn(Teller, 6)
    asks = [other.ask(busy, "busy", f"one-{id(flow)}", 0.01) for other in others for _ in range(3)]
    assert {ask.get() for ask in asks} == {1}


def test_calls_of_one_caller_keep_their_order_whatever_their_arguments_wait_for(flow: workflows.Flow) -> None:
    teller, slow = workflows.spawn(Teller, 2)
    teller.tell(slow.tell_later("late", 0.1))
    for number in range(50):
        teller.tell(number)
    teller.tell(slow.tell_later("later"))
    assert teller.all_heard().get() == ["late", *range(50), "later"]


def test_threads_of_a_script_are_one_caller_and_lose_nothing(flow: workflows.Flow) -> None:
    teller = Teller().to_dist()

    def tell(mark: int) -> None:
        for number in range(100):
            teller.tell([mark, number])

    threads = [threading.Thread(target=tell, args=(mark,), name=f"teller {mark}") for mark in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    heard = teller.all_heard().get()
    for mark in range(4):
        assert [number for told, number in heard if told == mark] == list(range(100))


def test_placeholders_travel_inside_whatever_is_passed(flow: workflows.Flow) -> None:
    teller, other = workflows.spawn(Teller, 2)
    three, text = other.tell(3), other.tell("x")
    given = {"list": [three, (text, three)], "note": Note("n", more={"p": three})}
    assert teller.tell(given).get() == {"list": [3, ("x", 3)], "note": Note("n", more={"p": 3})}


def test_values_are_copied_as_if_they_had_travelled(flow: workflows.Flow) -> None:
    teller = Teller().to_dist()
    value = [1]
    first = teller.tell(value)
    value.append(2)
    assert first.get() == [1]
    first.get().append(9)
    assert teller.all_heard().get() == [[1]]
    assert teller.tell(first).get() == [1]


def test_dataclasses_and_models_go_in_and_out(flow: workflows.Flow) -> None:
    teller = Teller("t").to_dist()
    assert teller.note(Note("a", ("b",))).get() == Note("A", ("b", "t"))
    assert teller.judge(Verdict(winner="w", score=1.5)).get() == Verdict(winner="w", score=3.0)


def test_methods_call_other_actors_waiting_awaiting_or_passing_on(flow: workflows.Flow) -> None:
    teller, other = Teller("one").to_dist(), Teller("two").to_dist()
    assert teller.ask(other, "tell", 1).get() == 1
    assert teller.ask_softly(other, "tell", 2).get() == 2
    assert teller.pass_on(other, "tell_later", 3).get() == [3, "one"]
    assert teller.spawn_child("born").get() == "born"
    assert other.all_heard().get() == [1, 2, 3]


def test_a_method_that_returns_a_placeholder_does_not_keep_its_actor_busy(flow: workflows.Flow) -> None:
    teller, slow = workflows.spawn(Teller, 2)
    passed = teller.pass_on(slow, "sleep", 1.0)
    begun = time.monotonic()
    assert teller.tell("free").get() == "free"
    assert time.monotonic() - begun < 0.9
    assert passed.get() == [1.0, "teller"]


def test_a_stopped_actor_ends_what_it_has_and_takes_no_more(flow: workflows.Flow) -> None:
    teller = Teller().to_dist()
    before = teller.tell("before")
    flow.stop(teller)
    after = teller.tell("after")
    assert before.get() == "before"
    with pytest.raises(workflows.CallRefusedError):
        after.get()


def test_closing_waits_for_calls_and_what_comes_later_is_refused() -> None:
    with workflows.local():
        teller = Teller().to_dist()
        slept = teller.sleep(0.2)
    assert slept.get() == 0.2
    with pytest.raises(workflows.FlowLostError, match="closed by this program"):
        teller.tell(1)


def test_a_script_that_raises_abandons_its_calls() -> None:
    begun = time.monotonic()
    with pytest.raises(ZeroDivisionError), workflows.local():
        teller = Teller().to_dist()
        never = teller.tell_later("never", 60)
        raise ZeroDivisionError
    assert time.monotonic() - begun < 10
    with pytest.raises(workflows.FlowLostError):
        never.get()


async def test_an_async_script_awaits_and_may_not_block() -> None:
    async with workflows.local(stage_limits=QUICK) as flow:
        teller, other = flow.spawn(Teller, 2)
        slow = teller.tell_later(3, 0.05)
        for read in (slow.get, lambda: str(slow), lambda: slow == 3, lambda: bool(slow)):
            with pytest.raises(TypeError, match="await its placeholder"):
                read()
        assert await other.ask_softly(teller, "tell", slow) == 3
        assert slow == 3, "what is there can be read"
        assert await workflows.gather([slow, {"x": other.tell(4)}, (5,)]) == [3, {"x": 4}, (5,)]
        assert await asyncio.gather(*(teller.tell(n) for n in range(20))) == list(range(20))
        with pytest.raises(ValueError, match="soft"):
            await other.tell(teller.fail("soft"))


async def test_an_async_script_without_a_flow_is_told_how_to_open_one() -> None:
    with pytest.raises(workflows.WorkflowError, match="no flow is open"):
        Teller().to_dist()


async def test_a_cancelled_wait_leaves_the_call_alone() -> None:
    async with workflows.local() as flow:
        (teller,) = flow.spawn(Teller)
        slow = teller.tell_later("on", 0.1)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await slow
        assert await slow == "on"
