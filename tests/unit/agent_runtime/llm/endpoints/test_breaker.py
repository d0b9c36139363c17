"""The circuit breaker: closed, open, half open."""

from __future__ import annotations

from agent_runtime.llm.endpoints import Breaker, BreakerState


def fail(breaker: Breaker, times: int, now_s: float = 0.0) -> None:
    for _ in range(times):
        breaker.note_failure(now_s, now_s)


def test_it_opens_after_failures_in_a_row_only() -> None:
    breaker = Breaker(3)
    for _ in range(10):
        fail(breaker, 2)
        breaker.note_success()
    assert breaker.state(0.0) is BreakerState.CLOSED
    fail(breaker, 3)
    assert breaker.state(0.0) is BreakerState.OPEN
    assert breaker.wait_s(1.0) == 4.0


def test_one_probe_closes_it_or_opens_it_for_twice_as_long_up_to_a_minute() -> None:
    breaker = Breaker(1)
    fail(breaker, 1)
    now_s, opens_s = 0.0, []
    for _ in range(7):
        wait_s = breaker.wait_s(now_s)
        assert wait_s is not None
        opens_s.append(wait_s)
        now_s += wait_s
        assert breaker.state(now_s) is BreakerState.HALF_OPEN
        breaker.enter()
        assert breaker.wait_s(now_s) is None, "one probe at a time"
        breaker.note_failure(now_s, now_s)
    assert opens_s == [5, 10, 20, 40, 60, 60, 60]
    now_s += 60
    breaker.enter()
    breaker.note_success()
    assert breaker.state(now_s) is BreakerState.CLOSED
    fail(breaker, 1, now_s)
    assert breaker.wait_s(now_s) == 5.0, "the next time begins anew"


def test_a_cancelled_probe_lets_the_next_one_pass_and_late_failures_say_nothing_new() -> None:
    breaker = Breaker(2)
    fail(breaker, 5)
    assert breaker.opened == 1
    breaker.enter()
    breaker.note_nothing(5.0)
    assert breaker.wait_s(5.0) == 0.0


def test_calls_of_before_it_opened_are_not_taken_for_the_probe() -> None:
    breaker = Breaker(1)
    fail(breaker, 1)
    breaker.enter()
    breaker.note_nothing(-1.0)
    breaker.note_failure(6.0, -1.0)
    assert breaker.wait_s(6.0) is None, "the probe is still out"
    assert breaker.opened == 1
    breaker.note_failure(7.0, 5.0)
    assert breaker.wait_s(7.0) == 10.0


def test_it_can_be_switched_off() -> None:
    breaker = Breaker(0)
    fail(breaker, 100)
    assert breaker.is_closed
