"""What a timer that is due fires, and when it is due again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from env_server.model.timelines import MissedTicks, Timer
from env_server.model.values import INT_MAX
from env_server.timeline.ticks import plan_tick


def test_a_timer_that_fires_once_fires_late() -> None:
    tick = plan_tick(Timer("t", 5, 1), 100, 0, 2)
    assert (tick.due_ns, tick.missed, tick.fires, tick.next) == (5, 0, True, None)


def test_a_repeating_one_ends_with_time_itself() -> None:
    tick = plan_tick(Timer("t", INT_MAX - 1, 1, 5), INT_MAX, 0, 2)
    assert tick.fires and tick.next is None
    skipping = plan_tick(Timer("t", INT_MAX - 6, 1, 5, MissedTicks.SKIP), INT_MAX, 0, 2)
    assert not skipping.fires and skipping.next is None


@given(
    due=st.integers(-50, 50),
    every=st.integers(1, 9),
    late=st.integers(0, 200),
    allowed=st.integers(0, 5),
    missed=st.sampled_from(MissedTicks),
    left_out=st.integers(0, 3),
)
def test_no_tick_is_forgotten_by_any_policy(
    due: int, every: int, late: int, allowed: int, missed: MissedTicks, left_out: int
) -> None:
    """Every tick up to now has fired, was told as missed, or is still to come."""
    timer = Timer("t", due, 1, every, missed, fired=7, left_out=left_out)
    now, told, passed = due + late, 0, 0
    while timer.due_ns <= now:
        tick = plan_tick(timer, now, allowed, timer.order + 1)
        assert tick.next is not None and tick.next.order == timer.order + 1
        assert (tick.due_ns - due) % every == 0 and tick.next.due_ns > timer.due_ns
        if tick.fires:
            assert tick.due_ns <= now and tick.next.due_ns == tick.due_ns + every
            told, passed = told + 1, passed + tick.missed
            if missed is MissedTicks.SKIP:
                assert now - tick.due_ns <= allowed
        timer = tick.next
    assert timer.due_ns > now and timer.due_ns - every <= now
    assert told + passed + timer.left_out == late // every + 1 + left_out
    assert timer.fired == 7 + told
    assert told == {MissedTicks.COALESCE: 1, MissedTicks.CATCH_UP: late // every + 1}.get(missed, told)
