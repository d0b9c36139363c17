"""Local flows: order, parallelism along the messages, errors, circles, bounds. The same promises hold in a world."""

from __future__ import annotations

import asyncio
import gc
import logging
import random
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from ecumene import workflows
from ecumene.workflows import FlowLimits, StageLimits

from tests.workflow_actors import Counter, Note, Teller, Verdict

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
    slept = teller.sleep(0.3)
    assert time.monotonic() - begun < 0.2
    assert not slept.done
    assert slept.get() == 0.3
    assert slept.done and time.monotonic() - begun >= 0.3


def test_calls_that_do_not_need_each_other_run_side_by_side(flow: workflows.Flow) -> None:
    tellers = workflows.spawn(Teller, 8)
    begun = time.monotonic()
    total = tellers[0].total([teller.sleep(0.3) for teller in tellers[1:]])
    assert total.get() == pytest.approx(7 * 0.3)
    assert time.monotonic() - begun < 7 * 0.3 / 2


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
    passed = teller.pass_on(slow, "sleep", 0.3)
    begun = time.monotonic()
    assert teller.tell("free").get() == "free"
    assert time.monotonic() - begun < 0.25
    assert passed.get() == [0.3, "teller"]


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


def test_nested_calls_beyond_the_slots_do_not_hang() -> None:
    limits = StageLimits(blocking_running_max=1, blocking_waiting_max=100)
    with workflows.local(stage_limits=limits):
        *tellers, last = workflows.spawn(Teller, 9)
        for teller in tellers:
            teller.tell("warm")
        chain: list[Any] = [last, "tell", "deep"]
        for teller in tellers[1:]:
            chain = [teller, "ask", *chain]
        assert tellers[0].ask(*chain).get(timeout_s=20) == "deep"


def test_more_waits_than_may_are_refused() -> None:
    limits = StageLimits(blocking_running_max=1, blocking_waiting_max=2)
    with workflows.local(stage_limits=limits):
        one, two, three, four = workflows.spawn(Teller, 4)
        with pytest.raises(workflows.WaitLimitError, match="blocking_waiting_max is 2"):
            one.ask(two, "ask", three, "ask", four, "sleep", 0.2).get(timeout_s=20)


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


def test_a_stopped_actor_ends_what_it_has_and_takes_no_more(flow: workflows.Flow) -> None:
    teller = Teller().to_dist()
    before = teller.tell("before")
    flow.stop(teller)
    after = teller.tell("after")
    assert before.get() == "before"
    with pytest.raises(workflows.CallRefusedError):
        after.get()


def test_results_go_with_their_placeholders(flow: workflows.Flow) -> None:
    teller = Teller().to_dist()
    kept = [teller.tell("x" * 1000) for _ in range(100)]
    workflows.resolve(kept)
    assert flow.statistics().results >= 100
    assert flow.statistics().results_bytes >= 100_000
    del kept
    gc.collect()
    assert teller.tell(1).get() == 1
    assert flow.statistics().results <= 2
    assert flow.statistics().results_bytes < 100


def test_the_number_of_results_is_bounded_and_that_is_told() -> None:
    with workflows.local(limits=FlowLimits(results_max=20)) as flow:
        teller = Teller().to_dist()
        kept = []
        with pytest.raises(workflows.FlowFullError, match="results_max is 20"):
            kept.extend(teller.tell(number) for number in range(100))
        assert workflows.resolve(kept) == list(range(len(kept)))
        kept.clear()
        gc.collect()
        deadline = time.monotonic() + 10
        while flow.statistics().results and time.monotonic() < deadline:
            time.sleep(0.01)
        assert teller.tell("room again").get() == "room again"


def test_the_bytes_of_results_are_bounded_and_the_oldest_expire() -> None:
    with workflows.local(limits=FlowLimits(results_bytes_max=10_000)) as flow:
        teller = Teller().to_dist()
        kept = []
        for number in range(20):
            kept.append(teller.tell(f"{number}" * 1000))
            assert kept[-1].get()
        assert flow.statistics().expired > 0
        assert flow.statistics().results_bytes <= 10_000
        assert kept[-1].get().startswith("19")
        # What was read is here; what travels has expired, and says so.
        with pytest.raises(workflows.ResultExpiredError, match="results_bytes_max is 10000"):
            teller.tell(kept[0])
        with pytest.raises(workflows.ResultExpiredError, match="was dropped"):
            kept[0].get()


def test_calls_beyond_the_stages_bounds_are_refused() -> None:
    limits = StageLimits(calls_waiting_max=3, actors_max=2)
    with workflows.local(stage_limits=limits):
        teller, _, third = workflows.spawn(Teller, 3)
        calls = [teller.sleep(0.1) for _ in range(10)]
        refused = 0
        for call in calls:
            try:
                call.get()
            except workflows.CallRefusedError as error:
                assert "calls_waiting_max is 3" in str(error)
                refused += 1
        assert 0 < refused < 10
        with pytest.raises(workflows.CallRefusedError, match=r"actors_max is 2|calls_waiting_max is 3"):
            third.tell(1).get()


def test_arguments_that_take_too_much_room_are_refused() -> None:
    with workflows.local(stage_limits=StageLimits(calls_bytes_max=50_000)):
        one, two = workflows.spawn(Teller, 2)
        parts = [one.make_bytes(10_000) for _ in range(10)]
        with pytest.raises(workflows.CallRefusedError, match="calls_bytes_max, 50000 bytes"):
            two.tell(parts).get()
        assert two.tell("room again").get() == "room again"


def test_a_failed_call_that_nobody_waits_for_is_logged(flow: workflows.Flow, caplog: pytest.LogCaptureFixture) -> None:
    teller = Teller().to_dist()
    with caplog.at_level(logging.WARNING, "ecumene.workflows"):
        teller.fail("unheard")
        gc.collect()
        teller.tell(1).get()
    assert "Teller.fail" in caplog.text and "unheard" in caplog.text


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


def test_a_deep_chain_and_a_wide_fan_in_finish(flow: workflows.Flow, seed: int) -> None:
    chance = random.Random(seed)
    tellers = workflows.spawn(Teller, 5)
    value = tellers[0].add(0)
    for _ in range(1000):
        value = chance.choice(tellers).add(value, 1)
    assert value.get() == 1000
    wide = [chance.choice(tellers).add(number) for number in range(10_000)]
    assert tellers[0].total(wide).get() == sum(range(10_000))
