"""Clocks that go on: in order, in slices, exactly once, and realtime ones by the machine's monotonic time alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from env_server.behaviours.behaviour import Behaviour, operation
from env_server.behaviours.context import Context
from env_server.model.changes import EventType
from env_server.model.environments import Access, Grant
from env_server.model.limits import Limits
from env_server.model.operations import ClockAction, Code, EnvironmentUpdate
from env_server.model.timelines import MissedTicks
from env_server.testing.ops import control, set_timer
from tests.engine import Op, Stand, drop, invoke, new_environment, put
from tests.timelines import MANUAL, REALTIME, SECOND, fired, now, told


class Holder(Behaviour):
    """Holds its whole environment for a while."""

    kind = "holder"

    @operation()
    async def hold(self, ctx: Context) -> None:
        await ctx.sleep(1)
        ctx.set("held", 1)


def town(clock: Any = MANUAL, **beside: Any) -> Stand:
    """A world with one environment that owns a clock."""
    stand = Stand(Holder(), **beside)
    stand.done(new_environment("/town", clock=clock, kind="holder"))
    return stand


def test_timers_fire_in_the_order_of_their_times_and_settings_each_in_a_revision_of_its_own() -> None:
    stand = town()
    stand.done(
        *(set_timer("/town", name, at_ns=due) for name, due in (("c", 5), ("a", 9), ("b", 5), ("d", 11))),
        set_timer("/town", "c", at_ns=5),
    )
    stand.done(control("/town", ClockAction.ADVANCE_BY, 10))
    assert fired(stand) == [("b", 5, 0), ("c", 5, 0), ("a", 9, 0)]
    rows = [row for row in stand.rows() if row[1] in (EventType.TIMER_FIRED, EventType.CLOCK_CHANGED)]
    revisions = [row[0] for row in rows]
    assert revisions == list(range(revisions[0], revisions[0] + 5))
    assert [row[4].document["now_ns"] for row in (rows[0], rows[-1])] == [0, 10]
    assert now(stand) == 10


def test_a_long_way_is_gone_in_slices_while_others_have_their_turn_and_over_a_kill() -> None:
    limits = Limits(timer_slice_max=50)
    stand = town(limits=limits)
    stand.done(set_timer("/town", "tick", after_ns=SECOND, every_ns=SECOND))
    stand.send(control("/town", ClockAction.ADVANCE_BY, 1000 * SECOND))
    stand.clock.step()
    stand.send(put("/", "mood", "calm"))
    stand.clock.settle()
    rows = [row[1] for row in stand.rows()]
    assert rows.index(EventType.ENTRY_SET) < rows.index(EventType.TIMER_FIRED) + 150
    stand.send(control("/town", ClockAction.ADVANCE_BY, 1000 * SECOND))
    for _ in range(7):
        stand.clock.step()
    stand.reopen()
    assert 1000 * SECOND < now(stand) < 2000 * SECOND
    stand.clock.settle()
    assert fired(stand) == [("tick", (1 + tick) * SECOND, 0) for tick in range(2000)]
    assert (now(stand), told(stand, EventType.CLOCK_CHANGED)[-1][3]["target_ns"]) == (2000 * SECOND, None)
    assert max(len(changes) for changes in stand.records()) <= 52


def test_a_step_goes_to_what_is_due_next_and_fires_all_of_it_also_when_paused() -> None:
    stand = town(replace(MANUAL, paused=True))
    stand.done(*(set_timer("/town", name, at_ns=due) for name, due in (("a", 3), ("b", 3), ("c", 4))))
    assert stand.do(control("/town", ClockAction.ADVANCE_BY, 1)).error.reason.name == "CLOCK_PAUSED"
    assert stand.do(control("/town", ClockAction.SKIP_TO, 1)).error.reason.name == "CLOCK_PAUSED"
    stand.done(control("/town", ClockAction.STEP))
    assert (fired(stand), now(stand)) == ([("a", 3, 0), ("b", 3, 0)], 3)
    stand.done(control("/town", ClockAction.STEP))
    before = stand.world.revision
    assert not stand.do(control("/town", ClockAction.STEP)).written.changed
    assert (now(stand), stand.world.revision) == (4, before)
    stand.done(set_timer("/town", "late", at_ns=1))
    assert len(fired(stand)) == 3, "it stands"
    stand.done(control("/town", ClockAction.RESUME))
    assert fired(stand)[3:] == [("late", 1, 0)]


@pytest.mark.parametrize(
    ("missed", "expected"),
    [
        (MissedTicks.COALESCE, [("t", 9, 2)]),
        (MissedTicks.SKIP, []),
        (MissedTicks.CATCH_UP, [("t", 3, 0), ("t", 6, 0), ("t", 9, 0)]),
    ],
)
def test_a_skip_deals_with_missed_ticks_as_each_timer_says(missed: MissedTicks, expected: list[Any]) -> None:
    stand = town()
    stand.done(set_timer("/town", "t", at_ns=3, every_ns=3, missed=missed), set_timer("/town", "once", at_ns=5))
    stand.done(control("/town", ClockAction.SKIP_TO, 10))
    assert sorted(fired(stand)) == sorted([*expected, ("once", 5, 0)])
    assert {row[2] for row in told(stand, EventType.TIMER_FIRED)} == {10}
    assert all(row[3]["skipped"] for row in told(stand, EventType.TIMER_FIRED)), "which tells them from late ones"
    stand.done(control("/town", ClockAction.ADVANCE_BY, 2))
    assert fired(stand)[-1] == ("t", 12, 3 if missed is MissedTicks.SKIP else 0)
    stand.done(set_timer("/town", "late", at_ns=11))
    assert not [row for row in told(stand, EventType.TIMER_FIRED)[-2:] if "skipped" in row[3]]


def test_a_timer_waits_for_who_holds_its_name_and_with_it_the_clock() -> None:
    stand = town()
    stand.send(invoke("/town", "hold"))
    stand.do(set_timer("/town", "t", at_ns=5))  # waits for the operation as well
    stand.clock.advance(1.0)
    stand.send(invoke("/town", "hold"))
    stand.done(new_environment("/other", clock=MANUAL))
    stand.send(control("/town", ClockAction.ADVANCE_BY, 9))
    stand.clock.advance(1.0)
    assert (fired(stand), now(stand)) == ([("t", 5, 0)], 9)


def test_who_waits_for_a_clock_that_waits_for_a_key_can_be_told_why() -> None:
    stand = town()
    stand.done(new_environment("/town/inn", kind="holder"))
    stand.done(set_timer("/town/inn", "t", at_ns=5))
    stand.send(invoke("/town/inn", "hold"))
    stand.do(control("/town", ClockAction.ADVANCE_BY, 9))
    seen = stand.world.timekeeping.see("/town")
    assert (seen.state.target_ns, seen.held_by) == (9, ("an operation holds /town/inn t",))
    arrived: list[bool] = []
    stand.world.timekeeping.when_arrived("/town", lambda: arrived.append(True))
    assert stand.world.must_stay and not arrived
    stand.clock.advance(1.0)
    assert (arrived, now(stand), stand.world.must_stay) == ([True], 9, False)


def test_a_pause_ends_the_way_and_whoever_waits_for_the_arrival_is_told() -> None:
    stand = town()
    stand.done(new_environment("/town/inn", clock=replace(MANUAL, lookahead_ns=3)))
    stand.do(control("/town/inn", ClockAction.ADVANCE_BY, 9))
    arrived: list[str] = []
    stand.world.timekeeping.when_arrived("/town/inn", lambda: arrived.append("paused"))
    stand.done(control("/town/inn", ClockAction.PAUSE))
    assert (arrived, now(stand, "/town/inn")) == (["paused"], 3)
    stand.done(control("/town/inn", ClockAction.RESUME))
    stand.do(control("/town/inn", ClockAction.ADVANCE_BY, 9))
    stand.world.timekeeping.when_arrived("/town/inn", lambda: arrived.append("gone"))
    stand.done(drop("/town/inn", ""))
    assert arrived == ["paused", "gone"]


def test_a_group_is_not_told_of_the_clock_above_where_it_may_not_look() -> None:
    stand = town()
    stand.done(new_environment("/town/inn", clock=replace(MANUAL, lookahead_ns=5)))
    grant = EnvironmentUpdate(set_grants=(Grant("/village", Access.READ),))
    stand.done(Op("/town/inn", "", Code.UPDATE_ENVIRONMENT, grant))
    stand.done(control("/town/inn", ClockAction.ADVANCE_BY, 20))
    see = stand.world.timekeeping.see
    (told,) = see("/town/inn", "/town/inn").held_by
    assert told == see("/town/inn").held_by[0] and told.startswith("the clock of /town is at 0 ns")
    (hidden,) = see("/town/inn", "/village").held_by
    assert "/town" not in hidden and not any(letter.isdigit() for letter in hidden)


def test_a_clock_waits_for_the_one_above_as_far_as_its_lookahead_says() -> None:
    stand = town()
    stand.done(new_environment("/town/inn", clock=replace(MANUAL, lookahead_ns=5)))
    stand.done(set_timer("/town/inn", "t", at_ns=3, every_ns=3))
    stand.do(control("/town/inn", ClockAction.ADVANCE_BY, 20))
    assert (now(stand, "/town/inn"), fired(stand)) == (5, [("t", 3, 0)])
    stand.reopen()
    stand.clock.settle()
    stand.do(control("/town", ClockAction.ADVANCE_BY, 6))
    assert (now(stand, "/town/inn"), fired(stand)[1:]) == (11, [("t", 6, 0), ("t", 9, 0)])
    assert stand.do(control("/town/inn", ClockAction.SKIP_TO, 30)).error.reason.name == "CLOCK_ON_ITS_WAY"
    stand.do(control("/town", ClockAction.ADVANCE_BY, 9))
    assert (now(stand, "/town/inn"), fired(stand)[3:]) == (20, [("t", 12, 0), ("t", 15, 0), ("t", 18, 0)])
    stand.do(control("/town/inn", ClockAction.SKIP_TO, 30))
    assert now(stand, "/town/inn") == 20, "a jump is whole or none"
    stand.do(control("/town", ClockAction.SKIP_TO, 100))
    assert (now(stand, "/town/inn"), fired(stand)[6:]) == (30, [("t", 30, 3)])


def test_a_full_disk_holds_a_clock_until_there_is_room() -> None:
    stand = town(limits=Limits(map_bytes=200_000, log_bytes_max=1 << 40, timer_slice_max=50))
    stand.done(set_timer("/town", "tick", after_ns=1, every_ns=1))
    stand.do(control("/town", ClockAction.ADVANCE_BY, 10_000))
    seen = stand.world.timekeeping.see("/town")
    assert 0 < seen.state.now_ns < 10_000 and seen.held_by == ("storage is nearly full",)
    assert not stand.fatal


# ---- realtime ----


def test_a_realtime_clock_goes_with_monotonic_time_at_a_rate_that_may_change() -> None:
    stand = town(replace(REALTIME, rate=10.0))
    stand.done(set_timer("/town", "t", at_ns=20 * SECOND, every_ns=20 * SECOND))
    stand.clock.advance(2.0)
    assert fired(stand) == [("t", 20 * SECOND, 0)]
    stand.done(control("/town", ClockAction.SET_RATE, rate=0.5))
    stand.clock.advance(39.0)
    assert len(fired(stand)) == 1
    stand.clock.advance(1.1)
    assert fired(stand)[1:] == [("t", 40 * SECOND, 0)]
    stand.done(control("/town", ClockAction.PAUSE))
    before = now(stand)
    stand.clock.advance(1000.0)
    assert now(stand) == before and not stand.world.must_stay
    stand.done(control("/town", ClockAction.RESUME))
    stand.clock.advance(2.0)
    assert now(stand) == before + SECOND and stand.world.must_stay
    stand.done(control("/town", ClockAction.STEP))
    assert fired(stand)[2:] == [("t", 60 * SECOND, 0)] and now(stand) == 60 * SECOND


def test_simulated_time_stands_while_no_server_runs_and_goes_on_from_what_was_told() -> None:
    for ends in ("kill", "stop"):
        stand = town(REALTIME)
        stand.done(set_timer("/town", "t", at_ns=10 * SECOND))
        stand.clock.advance(4.0)
        stand.done(put("/town", "mood", "calm"))
        shown = told(stand, EventType.ENTRY_SET)[-1][2]
        assert shown == 4 * SECOND
        getattr(stand, ends)(3600.0)
        stand.open()
        stand.clock.settle()
        assert now(stand) == shown and not fired(stand)
        stand.clock.advance(5.9)
        assert not fired(stand)
        stand.clock.advance(0.2)
        assert fired(stand) == [("t", 10 * SECOND, 0)]


def test_what_was_told_is_never_told_again_as_a_later_time_over_kills_at_any_step() -> None:
    for steps in range(6):
        stand = town(replace(REALTIME, rate=3.0))
        stand.clock.advance(1.0)
        sent = stand.send(put("/town", "mood", 1))
        seen: list[int] = []
        asked = stand.world.timekeeping.tell_time("/town")
        assert asked is not None
        stand.world.when_seen(lambda told_ns=asked, seen=seen: seen.append(told_ns))  # type: ignore[misc]
        for _ in range(steps):
            stand.clock.step()
        stand.reopen()
        stand.resend(sent)
        stand.clock.settle()
        assert now(stand) >= max([0, *seen]), steps
        times = [row[2] for row in told(stand, EventType.ENTRY_SET)]
        assert times == sorted(times)


def test_a_stalled_server_catches_up_and_late_ticks_go_by_their_policy() -> None:
    expected = {
        MissedTicks.COALESCE: [("t", 5 * SECOND, 4)],
        MissedTicks.SKIP: [("t", 5 * SECOND, 4)],
        MissedTicks.CATCH_UP: [("t", tick * SECOND, 0) for tick in range(1, 6)],
    }
    for missed, ticks in expected.items():
        stand = town(REALTIME)
        stand.done(set_timer("/town", "t", at_ns=SECOND, every_ns=SECOND, missed=missed))
        stand.clock.stall(5.1)
        stand.clock.settle()
        assert fired(stand) == ticks
        assert told(stand, EventType.TIMER_FIRED)[-1][2] == int(5.1 * SECOND)
    stand = town(REALTIME)
    stand.done(set_timer("/town", "t", at_ns=SECOND, every_ns=SECOND, missed=MissedTicks.SKIP))
    stand.clock.stall(5.5)
    stand.clock.settle()
    assert fired(stand) == [], "it is more than a moment late"
    stand.clock.advance(0.5)
    assert fired(stand) == [("t", 6 * SECOND, 5)]


def test_a_realtime_clock_stands_where_the_one_above_holds_it() -> None:
    stand = town()
    stand.done(new_environment("/town/inn", clock=replace(REALTIME, lookahead_ns=5 * SECOND)))
    stand.done(set_timer("/town/inn", "t", at_ns=7 * SECOND))
    stand.clock.advance(100.0)
    seen = stand.world.timekeeping.see("/town/inn")
    assert seen.state.now_ns == 5 * SECOND
    assert seen.held_by == ("the clock of /town is at 0 ns and lets it go to 5000000000 ns",)
    stand.done(control("/town", ClockAction.ADVANCE_BY, 50 * SECOND))
    assert now(stand, "/town/inn") == 5 * SECOND, "it has stood, it catches nothing up"
    stand.clock.advance(2.1)
    assert fired(stand) == [("t", 7 * SECOND, 0)]


def test_a_clock_below_a_realtime_one_goes_on_when_that_has_come_far_enough() -> None:
    stand = town(REALTIME)
    stand.done(new_environment("/town/inn", clock=replace(MANUAL, lookahead_ns=0)))
    stand.done(set_timer("/town/inn", "t", at_ns=3 * SECOND))
    stand.do(control("/town/inn", ClockAction.ADVANCE_BY, 4 * SECOND))
    stand.clock.advance(2.9)
    assert not fired(stand)
    stand.clock.advance(0.2)
    assert fired(stand) == [("t", 3 * SECOND, 0)]
    stand.clock.advance(1.0)
    assert now(stand, "/town/inn") == 4 * SECOND


def test_wall_clocks_have_no_say(monkeypatch: pytest.MonkeyPatch) -> None:
    logs = []
    for jump_s in (0, 3600, -3600):
        stand = town(REALTIME)
        stand.done(set_timer("/town", "t", at_ns=SECOND, every_ns=SECOND))
        stand.clock.advance(2.5)
        clock = stand.clock
        monkeypatch.setattr(type(clock), "wall_ns", lambda self, by=jump_s: self.monotonic_ns() + by * SECOND)
        clock.advance(3.0)
        monkeypatch.undo()
        logs.append(told(stand, EventType.TIMER_FIRED, EventType.TIMER_SET, EventType.CLOCK_CHANGED))
    assert len(logs[0]) == 6 and logs[0] == logs[1] == logs[2]


def test_a_timer_that_asks_for_the_impossible_keeps_nobody_busy() -> None:
    """Every nanosecond: it coalesces, a thousand times a second at most."""
    stand = town(REALTIME)
    stand.done(set_timer("/town", "t", after_ns=1, every_ns=1))
    stand.clock.advance(0.1)
    told_of = fired(stand)
    assert 50 <= len(told_of) <= 101
    assert sum(missed for _, _, missed in told_of) + len(told_of) == told_of[-1][1]


def test_a_full_disk_lets_a_realtime_clock_tell_nothing_new() -> None:
    stand = town(REALTIME, limits=Limits(map_bytes=4_000, log_bytes_max=1 << 40))
    stand.clock.advance(1.0)
    stand.done(put("/town", "mood", "y" * 4000))
    assert stand.do(put("/town", "mood", "calm")).error.reason.name == "STORAGE_QUOTA"
    before, used = now(stand), stand.log.storage_bytes()
    stand.clock.advance(1.0)
    assert (now(stand), stand.log.storage_bytes()) == (before, used) and before >= SECOND
    assert not stand.fatal
