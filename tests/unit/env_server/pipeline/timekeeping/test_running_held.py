"""Clocks that wait for others: they are looked at when there is something to see, and go on whatever held them."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from env_server.behaviours.behaviour import Behaviour, operation
from env_server.behaviours.context import Context
from env_server.model.limits import Limits
from env_server.model.operations import ClockAction, Code, Delete, EnvironmentUpdate
from env_server.model.timelines import ClockDeclaration
from env_server.pipeline.timekeeping.running import Running
from env_server.testing.ops import control, set_timer
from env_server.timeline.timeline import Due, Timeline
from tests.engine import Op, Stand, invoke, new_environment
from tests.timelines import MANUAL, REALTIME, SECOND, fired, now


class Holder(Behaviour):
    """Holds its whole environment for a while."""

    kind = "holder"

    @operation()
    async def hold(self, ctx: Context) -> None:
        await ctx.sleep(1)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of clocks that were looked at."""
    seen: list[int] = []
    look = Running._next

    def count(running: Running, timeline: Timeline) -> Due | None:
        seen.append(timeline.number)
        return look(running, timeline)

    monkeypatch.setattr(Running, "_next", count)
    return seen


def nested(*clocks: object) -> tuple[Stand, list[str]]:
    """A world with environments one below the other, and their paths."""
    stand, paths, path = Stand(), [], ""
    for number, clock in enumerate(clocks):
        path += f"/c{number}"
        paths.append(path)
        stand.done(new_environment(path, clock=clock))
    return stand, paths


@pytest.mark.parametrize("depth", [2, 3, 5])
def test_a_clock_that_a_standing_one_holds_keeps_nobody_busy(looks: list[int], depth: int) -> None:
    """However far that is above, and although those between them run."""
    running = replace(REALTIME, lookahead_ns=5)
    stand, paths = nested(MANUAL, *[running] * (depth - 1))
    stand.done(set_timer(paths[-1], "t", at_ns=5 * (depth - 1) + 2))
    stand.clock.advance(0.1)
    looks.clear()
    stand.clock.advance(10.0)
    assert not looks and not fired(stand)
    stand.done(control(paths[0], ClockAction.ADVANCE_BY, 1))
    stand.clock.advance(0.1)
    assert not fired(stand)
    stand.done(control(paths[0], ClockAction.ADVANCE_BY, 1))
    stand.clock.advance(0.1)
    assert [name for name, *_ in fired(stand)] == ["t"]


def test_clocks_that_run_with_each_other_are_looked_at_when_something_is_due(looks: list[int]) -> None:
    stand, paths = nested(REALTIME, replace(REALTIME, lookahead_ns=1), replace(REALTIME, lookahead_ns=1))
    looks.clear()
    stand.clock.advance(100.0)
    assert not looks
    stand.done(set_timer(paths[-1], "t", after_ns=5 * SECOND))
    stand.clock.advance(6.0)
    assert len(fired(stand)) == 1 and len(looks) < 10


def test_a_jump_below_a_running_clock_is_made_when_that_has_come_far_enough() -> None:
    stand, (_, below) = nested(REALTIME, replace(MANUAL, lookahead_ns=SECOND))
    stand.done(set_timer(below, "t", at_ns=3 * SECOND, every_ns=SECOND))
    stand.send(control(below, ClockAction.SKIP_TO, 10 * SECOND))
    stand.clock.advance(8.5)
    assert (now(stand, below), fired(stand)) == (0, [])
    stand.clock.advance(1.0)
    assert (now(stand, below), fired(stand)) == (10 * SECOND, [("t", 10 * SECOND, 7)])


def test_a_clock_that_has_stood_because_of_one_far_above_catches_nothing_up() -> None:
    slow = replace(REALTIME, rate=0.5, lookahead_ns=SECOND)
    stand, (top, _, below) = nested(MANUAL, replace(REALTIME, lookahead_ns=5 * SECOND), slow)
    stand.clock.advance(100.0)
    assert now(stand, below) == 6 * SECOND
    stand.done(control(top, ClockAction.ADVANCE_BY, 50 * SECOND))
    stand.clock.advance(2.0)
    assert now(stand, below) == 7 * SECOND


def test_a_pause_ends_a_step_that_another_clock_holds() -> None:
    stand, (_, below) = nested(MANUAL, replace(MANUAL, lookahead_ns=3, paused=True))
    stand.done(set_timer(below, "t", at_ns=9))
    stand.do(control(below, ClockAction.STEP))
    arrived: list[bool] = []
    stand.world.timekeeping.when_arrived(below, lambda: arrived.append(True))
    stand.done(control(below, ClockAction.PAUSE))
    assert (arrived, now(stand, below)) == ([True], 3)
    stand.done(control("/c0", ClockAction.ADVANCE_BY, 100))
    assert not fired(stand)


def test_an_arrival_is_told_while_another_clock_has_far_to_go() -> None:
    stand = Stand(limits=Limits(timer_slice_max=50))
    stand.done(new_environment("/far", clock=MANUAL), new_environment("/near", clock=MANUAL))
    stand.done(set_timer("/far", "tick", after_ns=1, every_ns=1), set_timer("/near", "t", at_ns=5))
    stand.send(control("/far", ClockAction.ADVANCE_BY, 2000))
    stand.clock.step()
    stand.send(control("/near", ClockAction.ADVANCE_BY, 10))
    arrived: list[int] = []
    stand.world.timekeeping.when_arrived("/near", lambda: arrived.append(now(stand, "/far")))
    stand.clock.settle()
    assert len(arrived) == 1 and arrived[0] < 300


def test_a_group_is_not_told_what_holds_a_clock_where_it_may_not_look() -> None:
    stand = Stand(Holder())
    stand.done(new_environment("/town", clock=MANUAL), new_environment("/town/inn"))
    stand.done(new_environment("/town/bank", kind="holder"), set_timer("/town/bank", "secret", at_ns=1))
    stand.send(invoke("/town/bank", "hold"))
    stand.send(control("/town", ClockAction.ADVANCE_BY, 1))
    see = stand.world.timekeeping.see
    assert see("/town", "/town").held_by == ("an operation holds /town/bank secret",)
    assert see("/town/inn", "/town/inn").held_by == ("an operation holds what is not to be seen from here",)


def test_nothing_is_kept_of_clocks_that_waited_and_are_gone() -> None:
    stand, _ = nested(MANUAL)
    for number in range(20):
        below = f"/c0/{number}"
        stand.done(new_environment(below, clock=replace(REALTIME, lookahead_ns=0)), set_timer(below, "t", at_ns=1))
        stand.done(Op(below, "", Code.DELETE_ENVIRONMENT, Delete()))
    clocks = stand.world.timekeeping._clocks
    assert not clocks._held and not clocks._holders and not clocks._bounded


def test_a_clock_that_has_stood_catches_nothing_up_when_one_is_declared_in_between() -> None:
    stand, (_, between, below) = nested(MANUAL, None, replace(REALTIME, lookahead_ns=SECOND))
    stand.clock.advance(100.0)
    assert now(stand, below) == SECOND
    declared = EnvironmentUpdate(clock=replace(MANUAL, start_ns=1000 * SECOND))
    stand.done(Op(between, "", Code.UPDATE_ENVIRONMENT, declared))
    assert now(stand, below) == SECOND
    stand.clock.advance(2.0)
    assert now(stand, below) == 3 * SECOND


def test_a_way_past_many_timers_settles_those_that_stand_below_once_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    stand, (top, below) = nested(MANUAL, replace(REALTIME, lookahead_ns=0))
    stand.done(*(set_timer(top, f"t{index}", at_ns=1 + index) for index in range(300)))
    stand.clock.advance(100.0)
    moves: list[int] = []
    go_on_from = Timeline.go_on_from
    monkeypatch.setattr(Timeline, "go_on_from", lambda *args: (moves.append(1), go_on_from(*args)))
    stand.done(control(top, ClockAction.ADVANCE_BY, 300))
    assert len(fired(stand)) == 300 and now(stand, below) == 0
    assert 1 <= len(moves) < 10
    stand.clock.advance(1.0)
    assert now(stand, below) == 300


def test_clocks_that_follow_another_are_looked_at_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    stand = Stand()
    stand.done(new_environment("/town", clock=MANUAL))
    clock = replace(MANUAL, lookahead_ns=0)
    stand.done(*(new_environment(f"/town/{index}", clock=clock) for index in range(1500)))
    stand.done(*(control(f"/town/{index}", ClockAction.ADVANCE_BY, 9) for index in range(1500)))
    in_step: list[int] = []
    look, step = Running._next, stand.clock.step

    def count(running: Running, timeline: Timeline) -> Due | None:
        in_step[-1] += 1
        return look(running, timeline)

    def begin() -> None:
        in_step.append(0)
        step()

    monkeypatch.setattr(Running, "_next", count)
    monkeypatch.setattr(stand.clock, "step", begin)
    in_step.append(0)
    stand.send(control("/town", ClockAction.ADVANCE_BY, 5))
    while not stand.clock.idle:
        stand.clock.step()
    assert {now(stand, f"/town/{index}") for index in range(1500)} == {5}
    assert max(in_step) <= 2 * 512 and sum(in_step) >= 1500


@pytest.mark.parametrize("is_new", [True, False])
@pytest.mark.parametrize("clock", [MANUAL, replace(REALTIME, lookahead_ns=0)])
def test_a_frame_that_declares_many_clocks_takes_no_time_that_is_their_square(
    clock: ClockDeclaration, is_new: bool
) -> None:
    def declare(count: int) -> float:
        stand = Stand()
        stand.done(*(new_environment(f"/{index}") for index in range(count) if not is_new))
        update = EnvironmentUpdate(clock=clock)
        ops = [
            new_environment(f"/{index}", clock=clock)
            if is_new
            else Op(f"/{index}", "", Code.UPDATE_ENVIRONMENT, update)
            for index in range(count)
        ]
        begun = time.process_time()
        stand.send(*ops)
        return time.process_time() - begun

    declare(10)
    few, many = (min(declare(count) for _ in range(3)) for count in (200, 3200))
    assert many < 64 * few, "sixteen times as many: 256 would be their square"
