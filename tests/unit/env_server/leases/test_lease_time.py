"""Lease time: the monotonic clock, without the time in which nobody could be heard."""

from __future__ import annotations

from env_server.clocks.manual_clock import ManualClock
from env_server.leases.lease_time import LeaseTime
from env_server.model.limits import Limits

SECOND = 1_000_000_000
LIMITS = Limits()
SLACK_NS = (LIMITS.lease_tick_ms + LIMITS.lease_late_ms_max) * 1_000_000


def make() -> tuple[ManualClock, LeaseTime, list[int]]:
    clock, ticks = ManualClock(), [0]

    def ticked() -> None:
        ticks[0] += 1

    return clock, LeaseTime(clock, LIMITS, ticked), ticks


def test_it_goes_with_the_clock_and_ticks_while_it_is_wanted() -> None:
    clock, time, ticks = make()
    clock.advance(5)
    assert (time.now_ns(), ticks) == (5 * SECOND, [0])
    time.begin()
    time.begin()
    clock.advance(5)
    assert (time.now_ns(), ticks) == (10 * SECOND, [5000 // LIMITS.lease_tick_ms])
    time.end()
    clock.advance(5)
    assert ticks == [5000 // LIMITS.lease_tick_ms]
    assert clock.idle


def test_a_stall_counts_for_no_lease() -> None:
    clock, time, ticks = make()
    time.begin()
    clock.advance(1)
    clock.stall(30)
    clock.settle()
    assert SECOND <= time.now_ns() <= SECOND + SLACK_NS
    before = time.now_ns()
    clock.advance(1)
    assert time.now_ns() == before + SECOND
    assert ticks[0] >= 4


def test_who_asks_before_the_late_tick_finds_the_stall_too() -> None:
    clock, time, _ = make()
    time.begin()
    clock.advance(1)
    clock.stall(30)
    early = time.now_ns()
    assert early <= SECOND + SLACK_NS
    clock.settle()
    assert early <= time.now_ns() <= SECOND + SLACK_NS, "it is taken out once"


def test_it_never_goes_back_and_two_stalls_add_up() -> None:
    clock, time, _ = make()
    time.begin()
    seen = [time.now_ns()]
    for seconds in (0.1, 3, 0.2, 7, 0.26, 0.6):
        clock.stall(seconds)
        seen.append(time.now_ns())
        clock.settle()
        seen.append(time.now_ns())
        clock.advance(0.3)
        seen.append(time.now_ns())
    assert seen == sorted(seen)
    assert seen[-1] <= 6 * (SLACK_NS + int(0.3 * SECOND))


def test_small_delays_are_no_stalls() -> None:
    clock, time, _ = make()
    time.begin()
    for _ in range(10):
        clock.stall((LIMITS.lease_tick_ms + LIMITS.lease_late_ms_max) / 1000)
        clock.settle()
    assert time.stalled_ns == 0
