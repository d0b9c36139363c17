"""When an event-driven clock goes on, and where to."""

from __future__ import annotations

import pytest

from env_server.behaviours.behaviour import Behaviour, listener, operation
from env_server.behaviours.context import Context
from env_server.behaviours.event import Event
from env_server.model.changes import EventType
from env_server.model.environments import Aggregate, Function
from env_server.model.errors import Reason, WorldError
from env_server.model.operations import ClockAction, Code, EnvironmentUpdate
from env_server.model.timelines import ClockDeclaration, ClockMode
from env_server.pipeline.timekeeping.jumping import Jumping
from env_server.timeline.timeline import Timeline
from tests.attended import EVENT_DRIVEN, Worker, control, held_by, make_town, now_ns, timer, told
from tests.engine import Op, Stand, drop, invoke, new_environment, put


def test_without_participants_it_stands() -> None:
    stand = make_town()
    stand.done(timer("/town", "dawn", 50))
    stand.clock.advance(60)
    assert told(stand) == [] and held_by(stand) == ("it has no participants in /town/workers",)


def test_it_jumps_to_the_first_timer_and_fires_it_behind_the_jump() -> None:
    stand = make_town()
    worker = Worker(stand)
    stand.done(timer("/town", "dawn", 50), timer("/town/workers", "noon", 80), timer("/town", "also", 50))
    bob = worker.join("bob")
    assert held_by(stand) == ("bob: no report",)
    worker.report("bob", bob)
    assert told(stand) == [("clock_changed", "", 50), ("timer_fired", "dawn", 50), ("timer_fired", "also", 50)]
    assert held_by(stand) == (f"bob: has consumed {bob} of {stand.world.revision}",)
    worker.report("bob", bob)
    assert told(stand)[3:] == [("clock_changed", "", 80), ("timer_fired", "noon", 80)]
    worker.report("bob", bob)
    assert held_by(stand) == ("nothing is due",) and not worker.voids


def test_it_jumps_to_the_earliest_wake_of_all_and_fires_nothing_there() -> None:
    stand = make_town()
    worker = Worker(stand)
    stand.done(timer("/town", "dawn", 50))
    ann, bob = worker.join("ann"), worker.join("bob")
    worker.report("ann", ann, earliest_wake_ns=30)
    assert told(stand) == []
    worker.report("bob", bob, earliest_wake_ns=40)
    assert told(stand) == [("clock_changed", "", 30)]
    worker.report("ann", ann)
    worker.report("bob", bob, earliest_wake_ns=40)
    assert told(stand)[1:] == [("clock_changed", "", 40)]


def test_a_wake_that_has_passed_is_told_the_time_once_and_holds_nobody_for_ever() -> None:
    stand = make_town(start_ns=100)
    worker = Worker(stand)
    bob = worker.join("bob")
    worker.report("bob", bob, earliest_wake_ns=70)
    assert told(stand) == [("clock_changed", "", 100)]
    stand.clock.advance(5)
    assert len(told(stand)) == 1, "only once a report"


def test_whoever_is_busy_or_behind_holds_it() -> None:
    stand = make_town()
    worker = Worker(stand)
    stand.done(timer("/town", "dawn", 50))
    bob = worker.join("bob")
    worker.report("bob", bob, busy=True)
    assert told(stand) == [] and held_by(stand) == ("bob: busy",)
    behind = stand.world.durable_revision
    stand.done(put("/town", "news", 1))
    worker.report("bob", bob, consumed_revision=behind)
    assert told(stand) == [] and held_by(stand) == (f"bob: has consumed {behind} of {behind + 1}",)
    worker.report("bob", bob)
    assert now_ns(stand) == 50


def test_what_a_participant_does_not_hear_does_not_hold_it() -> None:
    stand = make_town()
    worker = Worker(stand)
    stand.done(new_environment("/far"), new_environment("/town/deaf"), timer("/town", "dawn", 50))
    bob = worker.join("bob", {"hears": [{"path_prefix": "/far", "types": ["entry_set"]}]})
    stand.done(put("/town/deaf", "noise", 1), new_environment("/far/below"))
    worker.report("bob", bob, busy=True)
    heard = stand.done(put("/far/below", "news", 1))[0].revision  # type: ignore[union-attr]
    stand.done(put("/town/deaf", "noise", 2))
    worker.report("bob", bob, consumed_revision=heard - 1)
    assert held_by(stand) == (f"bob: has consumed {heard - 1} of {heard}",)
    worker.report("bob", bob, consumed_revision=heard)
    assert now_ns(stand) == 50
    jump = stand.world.revision - 1  # the timer's own event is not heard
    worker.report("bob", bob, consumed_revision=jump - 1)
    assert held_by(stand) == (f"bob: has consumed {jump - 1} of {jump}",), "the clock's changes are heard by all"


def test_it_does_not_go_on_while_something_is_not_on_the_disk() -> None:
    """One loop step after the other: a report that comes before an event is durable counts for less than it."""
    stand = make_town()
    worker = Worker(stand)
    stand.done(timer("/town", "dawn", 50))
    bob = worker.join("bob")
    sent = stand.send(put("/town", "news", 1))
    worker.say("bob", bob)
    while not sent.done:
        assert stand.world.durable_revision < stand.world.revision
        stand.clock.step()
    stand.clock.settle()
    assert now_ns(stand) == 0 and held_by(stand) == (f"bob: has consumed {bob} of {bob + 1}",)


def test_behind_ops_that_nobody_hears_it_goes_on_in_their_own_commit() -> None:
    stand = make_town()
    worker = Worker(stand)
    stand.done(new_environment("/deaf"), timer("/town", "dawn", 50), timer("/town", "noon", 80))
    bob = worker.join("bob", {"hears": [{"types": ["timer_fired"]}]})
    stand.send(put("/deaf", "noise", 1), timer("/town", "also", 50))
    written = stand.world.revision
    worker.say("bob", bob, consumed_revision=written)
    assert now_ns(stand) == 50 and stand.world.durable_revision < written, "the ops are not on the disk yet"
    worker.say("bob", bob, consumed_revision=written)
    assert now_ns(stand) == 50, "its own change has to be consumed first, on the disk or not"
    stand.clock.settle()
    assert told(stand) == [("clock_changed", "", 50), ("timer_fired", "dawn", 50), ("timer_fired", "also", 50)]
    (group,) = [changes for changes in stand.log.read(written, 1 << 62) if changes.last_revision >= written]
    assert group.types.count(EventType.TIMER_FIRED) == 2 and group.base_revision < written - 1
    worker.report("bob", bob)
    assert now_ns(stand) == 80


def test_what_the_open_commit_still_has_to_tell_of_aggregates_holds_it() -> None:
    stand = make_town()
    worker = Worker(stand)
    total = Aggregate("total", Function.SUM)
    stand.done(new_environment("/sums", aggregates=(total,)), timer("/town", "dawn", 50))
    bob = worker.join("bob", {"hears": [{"path_prefix": "/sums", "types": ["aggregate_changed"]}]})
    stand.send(put("/sums", "a", 1))
    worker.say("bob", bob, consumed_revision=stand.world.revision - 1)
    stand.clock.settle()
    assert now_ns(stand) == 0
    worker.report("bob", bob)
    assert now_ns(stand) == 50


class Ear(Behaviour):
    """Hears, and takes a second."""

    kind = "ear"

    @listener(key="noise", writes=lambda path, event: [])
    async def hear(self, ctx: Context, event: Event) -> None:
        """Takes a second, and writes nothing."""
        await ctx.sleep(1.0)


def test_a_listener_that_is_still_to_hear_holds_it() -> None:
    stand = make_town(Ear())
    worker = Worker(stand)
    stand.done(new_environment("/ear", kind="ear"), timer("/town", "dawn", 50))
    bob = worker.join("bob", {"hears": []})
    stand.clock.settle()
    stand.send(put("/ear", "noise", 1))
    worker.report("bob", bob, consumed_revision=stand.world.revision)
    stand.clock.advance(0.5)
    assert now_ns(stand) == 0
    stand.clock.advance(1.0)
    assert now_ns(stand) == 50


class Slow(Behaviour):
    """Its operation awaits."""

    kind = "slow"

    @operation()
    async def ponder(self, ctx: Context) -> None:
        """Takes a second, and writes nothing."""
        await ctx.sleep(1.0)


def test_an_operation_that_runs_and_what_waits_for_it_hold_it() -> None:
    stand = make_town(Slow())
    worker = Worker(stand)
    stand.done(new_environment("/far", kind="slow"), timer("/town", "dawn", 50))
    bob = worker.join("bob", {"hears": []})
    stand.do(invoke("/far", "ponder"))
    worker.report("bob", bob)
    stand.clock.advance(0.5)
    assert now_ns(stand) == 0 and held_by(stand) == ("changes are on their way in the world",)
    stand.clock.advance(0.6)
    assert now_ns(stand) == 50, "it ends without a change, and is noticed"


def test_paused_it_stands_and_a_step_is_one_jump() -> None:
    stand = make_town(paused=True)
    worker = Worker(stand)
    stand.done(timer("/town", "dawn", 50), timer("/town", "noon", 80))
    bob = worker.join("bob")
    worker.report("bob", bob)
    assert now_ns(stand) == 0
    stand.done(control(ClockAction.STEP))
    assert now_ns(stand) == 0, "the step's own event is not consumed yet"
    worker.report("bob", bob)
    assert [one for one in told(stand) if one[0] == "timer_fired"] == [("timer_fired", "dawn", 50)]
    for _ in range(3):
        worker.report("bob", bob)
    seen = stand.world.timekeeping.see("/town")
    assert (seen.state.now_ns, seen.state.paused, seen.state.stepping, seen.state.target_ns) == (50, True, False, None)
    stand.done(control(ClockAction.RESUME))
    worker.report("bob", bob)
    assert now_ns(stand) == 80


def test_a_step_to_where_nothing_is_due_ends_and_so_does_one_that_is_not_let() -> None:
    stand = make_town(paused=True, lookahead_ns=10)
    worker = Worker(stand)
    bob = worker.join("bob")
    stand.done(control(ClockAction.STEP))
    worker.report("bob", bob)
    assert not stand.world.timekeeping.see("/town").state.stepping
    stand.done(Op("/", "", Code.UPDATE_ENVIRONMENT, EnvironmentUpdate(clock=ClockDeclaration(ClockMode.MANUAL))))
    stand.done(timer("/town", "dawn", 50), control(ClockAction.STEP))
    worker.report("bob", bob)
    seen = stand.world.timekeeping.see("/town")
    assert not seen.state.stepping and seen.state.now_ns == 0


def test_a_step_is_told_when_it_begins_and_when_it_ends() -> None:
    stand = make_town(paused=True)
    worker = Worker(stand)
    bob = worker.join("bob")

    def steps() -> list[bool]:
        changed = int(EventType.CLOCK_CHANGED)
        return [value.document["stepping"] for _, kind, _, _, value in stand.rows() if kind == changed]

    stand.done(control(ClockAction.STEP))
    assert steps() == [True]
    worker.report("bob", bob)
    assert steps() == [True, False], "nothing is due"
    assert stand.rows()[-1][0] == stand.world.revision
    stand.reopen()
    assert not stand.world.timekeeping.see("/town").state.stepping
    worker = Worker(stand)
    stand.done(timer("/town", "dawn", 50), control(ClockAction.STEP))
    worker.report("bob", bob)
    assert steps()[2:] == [True, False, False] and now_ns(stand) == 50, "the jump, and the end of its way"


@pytest.mark.parametrize("paused", [True, False])
def test_whoever_waits_for_a_step_is_told_when_all_that_is_due_there_has_fired(paused: bool) -> None:
    stand = make_town(paused=paused)
    stand.done(timer("/town", "dawn", 50), timer("/town", "also", 50), timer("/town", "noon", 80))
    stand.send(control(ClockAction.STEP))
    seen: list[tuple[int, int | None]] = []

    def note() -> None:
        clock = stand.world.timekeeping.see("/town")
        seen.append((clock.timers, clock.next_due_ns))

    for _ in range(20):  # whenever it begins to wait
        stand.world.timekeeping.when_arrived("/town", note)
        stand.clock.step()
    stand.clock.settle()
    assert seen == [(1, 80)] * 20 and now_ns(stand) == 50


def test_a_step_without_participants_waits_for_nobody() -> None:
    stand = make_town(paused=True)
    stand.done(timer("/town", "dawn", 50))
    stand.done(control(ClockAction.STEP))
    assert told(stand)[1:] == [("clock_changed", "", 50), ("timer_fired", "dawn", 50), ("clock_changed", "", 50)]
    stand.done(control(ClockAction.STEP))
    assert not stand.world.timekeeping.see("/town").state.stepping, "nothing is due"


def test_a_pause_ends_a_step() -> None:
    stand = make_town(paused=True)
    worker = Worker(stand)
    stand.done(timer("/town", "dawn", 50))
    bob = worker.join("bob")
    stand.done(control(ClockAction.STEP))
    arrived: list[bool] = []
    stand.world.timekeeping.when_arrived("/town", lambda: arrived.append(True))
    assert not arrived
    stand.done(control(ClockAction.PAUSE))
    assert arrived
    worker.report("bob", bob)
    assert now_ns(stand) == 0


def test_a_step_outlives_a_kill_and_is_made_once() -> None:
    stand = make_town(paused=True)
    worker = Worker(stand)
    stand.done(timer("/town", "dawn", 50), timer("/town", "noon", 80))
    bob = worker.join("bob")
    stand.done(control(ClockAction.STEP))
    stand.reopen()
    worker = Worker(stand)
    worker.report("bob", bob)
    for _ in range(3):
        worker.report("bob", bob)
        stand.reopen()
        worker = Worker(stand)
    seen = stand.world.timekeeping.see("/town").state
    assert (seen.now_ns, seen.stepping, seen.target_ns) == (50, False, None)


def test_a_skip_goes_at_once_and_an_advance_is_refused() -> None:
    stand = make_town()
    worker = Worker(stand)
    worker.join("bob")
    stand.done(control(ClockAction.SKIP_TO, 70))
    assert now_ns(stand) == 70
    refused = stand.do(control(ClockAction.ADVANCE_TO, 90)).outcome()
    assert isinstance(refused, WorldError) and refused.reason is Reason.CLOCK_MODE_MISMATCH


def test_it_does_not_pass_the_clock_above_and_goes_on_with_it() -> None:
    stand = Stand()
    manual = ClockDeclaration(ClockMode.MANUAL)
    stand.done(Op("/", "", Code.UPDATE_ENVIRONMENT, EnvironmentUpdate(clock=manual)))
    stand.done(new_environment("/town", clock=ClockDeclaration(ClockMode.EVENT_DRIVEN, lookahead_ns=10)))
    worker = Worker(stand)
    bob = worker.join("bob", {"hears": []}, place="/town")
    worker.report("bob", bob, earliest_wake_ns=50)
    assert now_ns(stand) == 0
    assert "the clock above does not let it go to 50 ns" in held_by(stand)
    stand.done(control(ClockAction.ADVANCE_TO, 39, "/"))
    assert now_ns(stand) == 0
    stand.done(control(ClockAction.ADVANCE_TO, 40, "/"))
    assert now_ns(stand) == 50


def test_it_goes_on_with_a_clock_above_that_runs() -> None:
    stand = Stand()
    stand.done(Op("/", "", Code.UPDATE_ENVIRONMENT, EnvironmentUpdate(clock=ClockDeclaration(ClockMode.REALTIME))))
    stand.done(new_environment("/town", clock=ClockDeclaration(ClockMode.EVENT_DRIVEN, lookahead_ns=0)))
    worker = Worker(stand)
    bob = worker.join("bob", {"hears": []}, place="/town")
    started_ns = now_ns(stand, "/")
    worker.report("bob", bob, earliest_wake_ns=started_ns + 2_000_000_000)
    stand.clock.advance(1.9)
    assert now_ns(stand) == 0
    stand.clock.advance(0.2)
    assert now_ns(stand) == started_ns + 2_000_000_000


def test_below_a_running_clock_that_another_one_holds_it_keeps_nobody_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []
    consider = Jumping._consider

    def count(jumping: Jumping, timeline: Timeline) -> None:
        looks.append(timeline.number)
        consider(jumping, timeline)

    monkeypatch.setattr(Jumping, "_consider", count)
    stand = Stand()
    manual, running = ClockDeclaration(ClockMode.MANUAL), ClockDeclaration(ClockMode.REALTIME, lookahead_ns=5)
    stand.done(Op("/", "", Code.UPDATE_ENVIRONMENT, EnvironmentUpdate(clock=manual)))
    stand.done(new_environment("/land", clock=running))
    stand.done(new_environment("/land/town", clock=ClockDeclaration(ClockMode.EVENT_DRIVEN, lookahead_ns=0)))
    worker = Worker(stand, "/land/town")
    bob = worker.join("bob", {"hears": []}, place="/land/town")
    worker.report("bob", bob, earliest_wake_ns=7)
    stand.clock.advance(0.1)
    looks.clear()
    stand.clock.advance(10.0)
    assert not looks and now_ns(stand, "/land/town") == 0
    stand.done(control(ClockAction.ADVANCE_TO, 2, "/"))
    stand.clock.advance(0.1)
    assert now_ns(stand, "/land/town") == 7


def test_a_clock_is_gone_with_its_environment_and_its_reporters_are_told() -> None:
    stand = make_town()
    worker = Worker(stand)
    bob = worker.join("bob")
    worker.report("bob", bob)
    stand.done(drop("/town/workers", ""))
    assert [void.error.reason for void in worker.voids] == [Reason.PARTICIPANT_NOT_FOUND]
    stand.done(new_environment("/town/workers"))
    bob = worker.join("bob")
    worker.report("bob", bob)
    stand.done(drop("/town/workers", ""), drop("/town", ""))
    assert worker.voids[-1].error.reason in (Reason.PARTICIPANT_NOT_FOUND, Reason.CLOCK_NOT_FOUND)
    stand.clock.advance(1)


def test_of_two_clocks_each_waits_for_its_own() -> None:
    stand = make_town()
    stand.done(new_environment("/other", clock=ClockDeclaration(ClockMode.EVENT_DRIVEN)))
    stand.done(timer("/town", "dawn", 50), timer("/other", "dawn", 60))
    one, two = Worker(stand), Worker(stand, "/other")
    bob, eve = one.join("bob"), two.join("eve", place="/other")
    two.report("eve", eve)
    assert (now_ns(stand), now_ns(stand, "/other")) == (0, 60)
    one.report("bob", bob)
    assert (now_ns(stand), now_ns(stand, "/other")) == (50, 60)


def test_worlds_without_such_clocks_look_at_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    from env_server.pipeline.timekeeping import jumping

    stand = Stand()
    monkeypatch.setattr(jumping.Jumping, "_consider", lambda *_: pytest.fail("looked at a clock"))
    stand.done(new_environment("/a", clock=ClockDeclaration(ClockMode.MANUAL)), put("/a", "k", 1))
    assert EventType.CLOCK_CHANGED not in {kind for _, kind, _, _, _ in stand.rows()}


def test_many_clocks_are_looked_at_in_slices_and_not_at_all_while_the_world_is_not_quiet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    count = 1200
    stand = make_town(Slow())
    stand.done(new_environment("/held", kind="slow"))
    stand.done(*(new_environment(f"/{index}", clock=EVENT_DRIVEN) for index in range(count)))
    workers = [Worker(stand, f"/{index}") for index in range(count)]
    joined = stand.done(*(put(f"/{index}", "w", None) for index in range(count)))
    looks: list[int] = []
    consider, step = Jumping._consider, stand.clock.step

    def look(jumping: Jumping, timeline: Timeline) -> None:
        looks[-1] += 1
        consider(jumping, timeline)

    def begin() -> None:
        looks.append(0)
        step()

    monkeypatch.setattr(Jumping, "_consider", look)
    monkeypatch.setattr(stand.clock, "step", begin)
    looks.append(0)
    stand.send(invoke("/held", "ponder"))
    for worker, done in zip(workers, joined, strict=True):
        worker.say("w", done.revision, earliest_wake_ns=5)  # type: ignore[union-attr]
    for number in range(5):
        stand.send(put("/", f"x{number}", 1))
        while not stand.clock.idle:
            stand.clock.step()
    assert sum(looks) <= 2 * count, "each once or twice, not with each commit"
    looks.clear()
    stand.clock.advance(60.0)
    assert {now_ns(stand, f"/{index}") for index in range(count)} == {5}
    assert max(looks) <= 512 and sum(looks) <= 4 * count, "nobody is looked at for each commit of another"
