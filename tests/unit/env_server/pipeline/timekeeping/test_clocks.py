"""Clocks as part of a world: which is nearest, what rows tell, what goes with an environment, and what comes back."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from env_server.behaviours.behaviour import Behaviour, Target, listener, operation
from env_server.behaviours.context import Context
from env_server.behaviours.event import Event
from env_server.model.changes import EventType, FactKind
from env_server.model.environments import Access, Grant
from env_server.model.limits import Limits
from env_server.model.operations import (
    ClockAction,
    Code,
    ControlClock,
    Delete,
    EnvironmentUpdate,
    Precondition,
    SetTimer,
    Transact,
    Write,
)
from env_server.model.operations import Test as Condition
from env_server.storage import layout
from env_server.testing.behaviour_stand import behaviour_stand
from env_server.testing.ops import cancel_timer, control, make_frame, set_timer
from tests.engine import Op, Sent, Stand, drop, new_environment, put
from tests.timelines import MANUAL, REALTIME, SECOND, fired, now, told


def test_an_environment_lives_by_the_nearest_clock_and_its_timers_stay_on_the_one_they_were_set_on() -> None:
    stand = Stand()
    stand.done(new_environment("/a", clock=MANUAL), new_environment("/a/b"), new_environment("/c"))
    stand.done(set_timer("/a/b", "old", at_ns=5), put("/a/b", "x", 1), put("/c", "x", 1))
    declared = EnvironmentUpdate(clock=replace(MANUAL, start_ns=100))
    stand.done(
        Op("/a/b", "", Code.UPDATE_ENVIRONMENT, declared), put("/a/b", "x", 2), set_timer("/a/b", "new", after_ns=1)
    )
    assert (now(stand, "/a"), now(stand, "/a/b")) == (0, 100)
    stand.reopen()
    stand.done(control("/a", ClockAction.ADVANCE_BY, 9))
    assert told(stand, EventType.TIMER_FIRED) == [
        ("/a/b", "old", 100, {"due_ns": 5, "fired": 1, "missed": 0, "last": True, "payload": None})
    ]
    assert [row[2] for row in told(stand, EventType.ENTRY_SET)] == [0, None, 100]
    stand.done(set_timer("/a/b", "old", at_ns=101), control("/a/b", ClockAction.ADVANCE_BY, 1))
    assert fired(stand)[1:] == [("new", 101, 0), ("old", 101, 0)]


def test_rows_of_one_group_tell_the_time_at_which_they_were_written() -> None:
    stand = Stand()
    stand.done(new_environment("/a", clock=MANUAL), new_environment("/a/b"))
    stand.done(
        put("/a/b", "x", 1),
        control("/a", ClockAction.ADVANCE_BY, 5),
        put("/a/b", "x", 2),
        control("/a", ClockAction.SKIP_TO, 9),
        put("/a/b", "x", 3),
    )
    assert len(stand.records()[-1].places) > 2, "it is one group"
    assert [row[2] for row in told(stand, EventType.ENTRY_SET, EventType.CLOCK_CHANGED)] == [0, 5, 5, 9, 9]


def test_a_deletion_takes_clocks_and_timers_along_and_leaves_no_fact() -> None:
    stand = Stand()
    stand.done(new_environment("/a", clock=MANUAL), new_environment("/a/b", clock=REALTIME), new_environment("/a/c"))
    stand.done(*(set_timer(path, "t", at_ns=5 * SECOND) for path in ("/a", "/a/b", "/a/c")))
    assert stand.world.must_stay
    stand.done(Op("/a", "", Code.DELETE_ENVIRONMENT, Delete(recursive=True)))
    assert not stand.world.must_stay
    stand.stop(outage_s=0)
    kinds = [layout.split_fact_key(key)[0] for key in stand.disk.tables[layout.FACTS]]
    assert FactKind.CLOCK not in kinds and FactKind.TIMER not in kinds
    stand.open()
    stand.clock.advance(10.0)
    assert fired(stand) == []
    stand.done(new_environment("/a"))
    assert stand.do(set_timer("/a", "t", at_ns=1)).error.reason.name == "CLOCK_NOT_FOUND"


def test_timers_of_an_environment_go_with_it_and_the_clock_above_stays() -> None:
    stand = Stand()
    stand.done(new_environment("/a", clock=MANUAL), new_environment("/a/b"))
    stand.done(set_timer("/a/b", "t", at_ns=5), set_timer("/a", "u", at_ns=5), drop("/a/b", ""))
    stand.done(control("/a", ClockAction.ADVANCE_BY, 9))
    assert fired(stand) == [("u", 5, 0)]


def test_a_transaction_that_fails_leaves_clocks_as_they_were_and_later_rows_tell_the_right_time() -> None:
    stand = Stand()
    stand.done(new_environment("/a", clock=MANUAL), set_timer("/a", "t", at_ns=50))
    never = Precondition(Condition.EXISTS, path="/", key="nothing")
    advance = Write("/a", "", Code.CONTROL_CLOCK, ControlClock(ClockAction.ADVANCE_BY, 7))
    writes = (
        advance,
        Write("/a", "x", Code.SET, 1),
        Write("/a", "t", Code.CANCEL_TIMER, Delete()),
        Write("/a", "v", Code.SET_TIMER, SetTimer(at_ns=3)),
        Write("/", "y", Code.SET, 1, (never,)),
    )
    outcome = stand.do(Op("/", "", Code.TRANSACT, Transact(writes=writes)), put("/a", "x", 2))
    assert outcome.error.reason.name == "PRECONDITION_FAILED"
    assert [row[2] for row in told(stand, EventType.ENTRY_SET)] == [0]
    assert [timer.name for timer in stand.world.timekeeping.list_timers("/a")] == ["t"]
    both = Transact(writes=writes[:4])
    stand.done(Op("/", "", Code.TRANSACT, both))
    assert (now(stand, "/a"), fired(stand)) == (7, [("v", 3, 0)])


def test_a_transaction_that_fails_leaves_what_rows_before_it_told() -> None:
    stand = Stand()
    stand.done(new_environment("/a", clock=REALTIME))
    stand.clock.advance(50.0)
    writes = (
        Write("/a", "", Code.CONTROL_CLOCK, ControlClock(ClockAction.PAUSE)),
        Write("/a", "none", Code.CANCEL_TIMER, Delete()),
    )
    stand.send(put("/a", "x", 1), Op("/", "", Code.TRANSACT, Transact(writes=writes)))
    stand.clock.settle()
    assert [row[2] for row in told(stand, EventType.ENTRY_SET)] == [50 * SECOND]
    stand.reopen()
    assert now(stand, "/a") == 50 * SECOND


def test_a_clock_that_is_declared_above_sets_none_behind_what_rows_of_the_group_told() -> None:
    stand = Stand()
    stand.done(new_environment("/a", clock=REALTIME), new_environment("/a/b"))
    stand.done(new_environment("/a/b/c", clock=replace(REALTIME, lookahead_ns=SECOND)))
    stand.clock.advance(50.0)
    declare = Write("/a/b", "", Code.UPDATE_ENVIRONMENT, EnvironmentUpdate(clock=MANUAL))
    none = Write("/a", "none", Code.CANCEL_TIMER, Delete())
    stand.send(
        put("/a/b/c", "x", 1),
        Op("/", "", Code.TRANSACT, Transact(writes=(declare, none))),
        Op("/a/b", "", Code.UPDATE_ENVIRONMENT, EnvironmentUpdate(clock=MANUAL)),
        control("/a/b/c", ClockAction.PAUSE),
        put("/a/b/c", "x", 2),
    )
    stand.clock.settle()
    times = [row[2] for row in told(stand, EventType.ENTRY_SET, EventType.CLOCK_CHANGED)]
    assert times == [50 * SECOND] * 3
    stand.reopen()
    assert now(stand, "/a/b/c") == 50 * SECOND


@pytest.mark.parametrize("others", [0, 40])
def test_a_clock_that_is_declared_above_others_tells_the_time_of_all_below(others: int) -> None:
    """Whether the group touches more places than lie below, or fewer."""
    stand = Stand()
    stand.done(new_environment("/w"), new_environment("/w/a"), new_environment("/w/a/b"), new_environment("/w/a/b/c"))
    stand.done(*(new_environment(f"/w/{number}") for number in range(others)))
    revision = stand.world.revision
    late = replace(MANUAL, start_ns=5 * SECOND)
    stand.done(
        *(put(f"/w/{number}", "k", 1) for number in range(others)),
        *(put(path, "k", 1) for path in ("/w", "/w/a", "/w/a/b/c")),
        Op("/w/a", "", Code.UPDATE_ENVIRONMENT, EnvironmentUpdate(clock=late)),
        *(put(path, "k", 2) for path in ("/w", "/w/a", "/w/a/b/c")),
    )
    told_at = [
        (changes.places[place].path, changes.places[place].sim_time_ns)
        for changes in stand.records()
        for row, place in enumerate(changes.path)
        if changes.revisions[row] > revision + others and changes.keys[row]
    ]
    before, after = [("/w", None), ("/w/a", None), ("/w/a/b/c", None)], [("/w", None)]
    assert told_at == [*before, *after, ("/w/a", 5 * SECOND), ("/w/a/b/c", 5 * SECOND)]


def test_declaring_many_clocks_in_one_group_looks_at_each_once() -> None:
    def count_calls(clocks: int) -> int:
        stand, calls = Stand(), 0
        ops = [new_environment(f"/{number}", clock=MANUAL) for number in range(clocks)]

        def trace(frame: object, event: str, argument: object) -> None:
            nonlocal calls
            calls += event == "call"

        before = sys.getprofile()
        sys.setprofile(trace)
        try:
            stand.send(*ops)
        finally:
            sys.setprofile(before)
        return calls

    assert count_calls(400) < 5 * count_calls(100), "4,096 of them took 1.2 s in one step"


def test_control_and_timers_are_done_once_under_their_producer_over_a_restart() -> None:
    stand = Stand()
    stand.done(new_environment("/a", clock=MANUAL))
    ops = [
        control("/a", ClockAction.ADVANCE_BY, 5, producer="ann", seq=1),
        set_timer("/a", "t", {"producer": "bob", "seq": 1}, after_ns=5),
        cancel_timer("/a", "u", producer="cyd", seq=1),
    ]
    first = [stand.do(op).outcome() for op in ops]
    for _ in range(2):
        repeated = [stand.do(op) for op in ops]
        assert [sent.outcome() for sent in repeated[:2]] == first[:2]
        assert repeated[2].error.reason.name == "TIMER_NOT_FOUND"
        assert all(sent.is_duplicate() for sent in repeated)
        stand.reopen()
    assert now(stand, "/a") == 5
    assert [timer.due_ns for timer in stand.world.timekeeping.list_timers("/a")] == [10]


def test_a_group_sets_timers_where_it_may_write_and_controls_no_clock_above() -> None:
    stand = Stand()
    stand.done(
        new_environment("/a", clock=MANUAL, grants=(Grant("/a/mine", Access.READ),)),
        new_environment("/a/mine"),
        new_environment("/a/other"),
    )
    asked = (
        set_timer("/a/mine", "t", at_ns=5),
        set_timer("/a/other", "t", at_ns=5),
        control("/a", ClockAction.ADVANCE_BY, 5),
        cancel_timer("/a/other", "t", if_present=True),
    )
    frame = make_frame(asked)
    frame.groups = ["/a/mine"] * len(asked)
    sent = stand.resend(Sent(frame))
    stand.clock.settle()
    reasons = [getattr(getattr(sent.outcome(index), "reason", None), "name", "") for index in range(len(asked))]
    assert reasons == ["", *["PERMISSION_DENIED"] * 3]


def test_a_timer_that_is_cancelled_makes_room_for_another() -> None:
    stand = Stand(limits=Limits(timers_max=1))
    stand.done(new_environment("/a", clock=MANUAL), set_timer("/a", "t", at_ns=5))
    assert stand.do(set_timer("/a", "u", at_ns=5)).error.reason.name == "TIMER_QUOTA"
    stand.done(cancel_timer("/a", "t"), set_timer("/a", "u", at_ns=5))
    assert [timer.name for timer in stand.world.timekeeping.list_timers("/a")] == ["u"]


class Bell(Behaviour):
    """Rings each minute of its clock, until it has rung three times."""

    kind = "bell"

    @operation(writes=lambda path: [Target(path, "ring")])
    async def wind(self, ctx: Context) -> int | None:
        ctx.set_timer("ring", after_ns=60 * SECOND, every_ns=60 * SECOND, payload={"loud": True})
        return ctx.sim_time_ns()

    @listener(types=[EventType.TIMER_FIRED], key="ring")
    async def ring(self, ctx: Context, event: Event) -> None:
        ctx.set("last", {**event.value, "heard_ns": ctx.sim_time_ns()})
        if event.value["fired"] == 3:
            ctx.cancel_timer("ring")


def test_a_behaviour_sets_timers_hears_them_and_knows_the_time() -> None:
    with behaviour_stand(Bell) as stand:
        stand.register("/tower", kind="bell", clock=replace(MANUAL, start_ns=7))
        assert stand.invoke("/tower", "wind") == 7
        stand.control_clock("/tower", ClockAction.ADVANCE_BY, 61 * SECOND)
        told = stand.get("/tower", "last")
        assert (told["fired"], told["payload"], told["heard_ns"]) == (1, {"loud": True}, 7 + 61 * SECOND)
        stand.kill_and_restart()
        for _ in range(3):
            stand.control_clock("/tower", ClockAction.STEP)
        assert stand.get("/tower", "last")["fired"] == 3
        assert not stand.failures() and len(stand.events("/tower", EventType.TIMER_CANCELLED)) == 1


def test_a_few_of_many_timers_are_the_first_ones_by_name() -> None:
    stand = Stand()
    stand.done(new_environment("/a", clock=MANUAL), *(set_timer("/a", name, at_ns=5) for name in "dbeca"))
    listed = stand.world.timekeeping.list_timers
    assert [timer.name for timer in listed("/a", "a", limit=2)] == ["b", "c"]
    assert [timer.name for timer in listed("/a", limit=9)] == list("abcde")


def test_a_group_is_told_of_the_timers_that_it_sees() -> None:
    stand = Stand()
    stand.done(new_environment("/town", clock=MANUAL), new_environment("/town/east"), new_environment("/town/west"))
    stand.done(set_timer("/town/west", "secret", at_ns=5), set_timer("/town/west", "other", at_ns=6))
    see = stand.world.timekeeping.see

    def timers(group: str) -> tuple[int, int | None]:
        seen = see("/town", group)
        return seen.timers, seen.next_due_ns

    assert (timers(""), timers("/town/east")) == ((2, 5), (0, None))
    stand.done(set_timer("/town/east", "own", at_ns=9), set_timer("/town", "bell", at_ns=8))
    assert (timers(""), timers("/town/east")) == ((4, 5), (2, 8))
    granted = EnvironmentUpdate(set_grants=(Grant("/town/east", Access.READ),))
    stand.done(Op("/town/west", "", Code.UPDATE_ENVIRONMENT, granted))
    assert timers("/town/east") == (4, 5)
