"""One clock by itself: what it shows, how far it goes, and which timer is first."""

from __future__ import annotations

import random

import pytest

from env_server.model.timelines import ClockDeclaration, ClockMode, ClockState, Timer
from env_server.model.values import INT_MAX
from env_server.timeline.timeline import Timeline, TimerKey
from env_server.timeline.timer_queue import TimerQueue


def timeline_of(mode: ClockMode = ClockMode.MANUAL, **state: object) -> Timeline:
    return Timeline(1, ClockDeclaration(mode), ClockState(100, **state), 1000)  # type: ignore[arg-type]


def test_a_manual_clock_stands_and_a_realtime_one_goes_at_its_rate() -> None:
    assert timeline_of().read(10**9) == 100
    assert timeline_of(ClockMode.REALTIME, rate=2.5).read(1010) == 125
    assert timeline_of(ClockMode.REALTIME, paused=True).read(10**9) == 100


def test_a_clock_never_goes_back_and_ends_with_time_itself() -> None:
    timeline = timeline_of(ClockMode.REALTIME)
    assert timeline.read(0) == 100, "a monotonic clock that began anew"
    assert timeline.read(2000, bound_ns=50) == 100
    assert timeline.read(2000, bound_ns=500) == 500
    assert timeline_of(ClockMode.REALTIME, rate=1e300).read(10**18) == INT_MAX
    assert timeline_of(ClockMode.REALTIME, rate=1e300).read(10**18, bound_ns=2 * INT_MAX) == INT_MAX


def test_it_goes_to_its_target_as_far_as_it_is_let_and_jumps_whole_or_not_at_all() -> None:
    assert timeline_of().goal(100, None) == 100
    assert timeline_of(target_ns=150).goal(100, None) == 150
    assert timeline_of(target_ns=150).goal(100, 120) == 120
    assert timeline_of(target_ns=150).goal(100, 90) == 100
    assert timeline_of(target_ns=150, skipping=True).goal(100, 120) == 100
    assert timeline_of(target_ns=150, skipping=True).goal(100, 150) == 150


@pytest.mark.parametrize("rate", [1e-9, 0.3, 1.0, 7.0, 1e9])
def test_the_delay_to_a_time_is_long_enough_and_at_least_something(rate: float) -> None:
    timeline = timeline_of(ClockMode.REALTIME, rate=rate)
    assert timeline.delay_to(100, 100) == timeline.delay_to(0, 100) == 1
    delay_ns = timeline.delay_to(1_000_100, 100)
    assert timeline.read(1000 + delay_ns) >= 1_000_099
    assert delay_ns == 1 or timeline.read(1000 + delay_ns - 1) <= 1_000_100


def test_the_first_timer_is_the_one_of_a_sorted_list_whatever_was_set_anew_cancelled_and_taken_out(seed: int) -> None:
    chance, timeline, orders = random.Random(seed), timeline_of(), 0
    expected: dict[TimerKey, Timer] = {}
    taken_out: dict[int, TimerQueue] = {}
    for _ in range(5000):
        number = chance.randrange(4)
        key = (number, chance.choice("abcdefghij"))
        if chance.random() < 0.02 and number in timeline.timers:
            taken_out[number] = timeline.drop_all(number)
            expected = {one: timer for one, timer in expected.items() if one[0] != number}
        elif number in taken_out and number not in timeline.timers:
            queue = taken_out.pop(number)
            timeline.put_all(number, queue)
            expected.update({(number, name): timer for name, timer in queue.by_name.items()})
        elif key in expected and chance.random() < 0.4:
            assert timeline.drop(key) is expected.pop(key)
        else:
            orders += 1
            expected[key] = Timer(key[1], chance.randrange(20), orders)
            timeline.put(key, expected[key])
        assert timeline.get(key) is expected.get(key)
        waiting = sorted((timer.due_ns, timer.order, key) for key, timer in expected.items())
        first = timeline.first
        assert (first is None) == (not waiting)
        assert first is None or (first.timer.due_ns, first.timer.order, first.key) == waiting[0]
        assert timeline.timer_count == len(expected)
    assert len(timeline._queue) <= 64 + 2 * len(timeline.timers) + 1
    assert all(len(queue) for queue in timeline.timers.values())


def test_who_is_set_anew_without_end_takes_no_more_room() -> None:
    timeline = timeline_of()
    for due in (*range(1000, 0, -1), *range(1000)):
        timeline.put((1, "t"), Timer("t", due, due))
        timeline.put((2, "u"), Timer("u", -due, due))
    assert len(timeline._queue) < 100
    assert all(len(queue._queue) < 100 for queue in timeline.timers.values())
