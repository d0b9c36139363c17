"""The stand says what happened, also when that is an error or has not happened yet."""

from __future__ import annotations

from typing import Any

import pytest

from env_server.behaviours import Behaviour, Context, Event, EventType, Target, listener, operation
from env_server.model.errors import InternalError, InvalidRequest, NotFound, OperationRefused, WrongState
from env_server.testing import (
    ClockAction,
    ClockDeclaration,
    ClockMode,
    Grid,
    Proximity,
    Space,
    StillRunning,
    behaviour_stand,
)
from tests.engine import put


class Clock(Behaviour):
    """Awaits, counts, refuses, fails."""

    kind = "clock"

    @operation(writes=lambda path, seconds: [Target(path, "ticks")])
    async def tick(self, ctx: Context, seconds: float) -> dict[str, Any]:
        await ctx.sleep(seconds)
        ctx.add("ticks", 1)
        return {"slept": seconds}

    @operation()
    async def refuse(self, ctx: Context) -> None:
        ctx.refuse("no", "not today")

    @operation()
    async def fail(self, ctx: Context) -> None:
        raise RuntimeError

    @listener(types=[EventType.ENTRY_SET], key="in")
    async def hear(self, ctx: Context, event: Event) -> None:
        ctx.append("heard", {"of": event.actor})


class Bells(Behaviour):
    """Rings after a while, for those who are near."""

    kind = "bells"

    @operation(writes=lambda path, name, after_ns: [Target(path, name)])
    async def ring(self, ctx: Context, name: str, after_ns: int) -> list[str]:
        ctx.set_timer(name, after_ns=after_ns)
        return ctx.near(name, radius=2)

    @operation(writes=lambda path, name, place: [Target(path, name)])
    async def hang(self, ctx: Context, name: str, place: list[int]) -> list[list[str]]:
        ctx.set(name, {"rung": 0}, position=place)
        return [ctx.near(place, nearest=1), ctx.near(place, adjacent=True)]

    @listener(types=[EventType.TIMER_FIRED], writes=lambda path, event: [Target(path, None)])
    async def sound(self, ctx: Context, event: Event) -> None:
        for hearer in ctx.near(event.key, radius=2):
            ctx.append("heard", [hearer, event.sim_time_ns, ctx.sim_time_ns()])
        ctx.move(event.key, ())


def test_time_and_space_are_the_tests_to_give() -> None:
    clock = ClockDeclaration(ClockMode.MANUAL)
    for space in (Grid(10, 10), Space(Grid(10, 10), proximities=(Proximity("talk", 1.0),))):
        with behaviour_stand(Bells) as stand:
            stand.register("/b", kind="bells", clock=clock, space=space)
            stand.set("/b", "ann", 1, position=(5, 5))
            stand.set("/b", "bob", 1, position=(9, 9))
            assert stand.invoke("/b", "hang", name="big", place=[4, 4]) == [["ann"], ["ann"]]
            assert (stand.position("/b", "big"), stand.position("/b", "none")) == ((4.0, 4.0), None)
            assert stand.invoke("/b", "ring", name="big", after_ns=7) == ["ann"]
            stand.move("/b", "bob", (3, 3))
            stand.control_clock("/b", ClockAction.ADVANCE_BY, 10)
            assert stand.items("/b", "heard") == [["ann", 7, 10], ["bob", 7, 10]]
            assert stand.position("/b", "big") is None and not stand.failures()
            stand.kill_and_restart()
            assert stand.position("/b", "bob") == (3.0, 3.0)


def test_a_question_about_who_is_near_fails_as_a_clients_does() -> None:
    with behaviour_stand(Bells) as stand:
        stand.register("/b", kind="bells", space=Grid(10, 10))
        stand.register("/flat", kind="bells")
        stand.set("/b", "bell", 1)
        with pytest.raises(InvalidRequest, match="11"):
            stand.invoke("/b", "hang", name="bell", place=[11, 0])
        for path, name, error in (("/b", "bell", WrongState), ("/b", "none", NotFound), ("/flat", "bell", NotFound)):
            with pytest.raises(error):
                stand.invoke(path, "ring", name=name, after_ns=1)


def test_time_passes_only_when_told() -> None:
    with behaviour_stand(Clock) as stand:
        stand.register("/c", kind="clock", config={"a": 1}, colour="red")
        running = stand.begin("/c", "tick", seconds=3.0)
        with pytest.raises(StillRunning):
            _ = running.result
        with pytest.raises(StillRunning):
            stand.invoke("/c", "tick", seconds=1.0)
        stand.advance(2.9)
        assert not running.done and stand.get("/c", "ticks") is None
        stand.advance(0.1)
        assert running.result == {"slept": 3.0}
        assert running.revision == 3
        stand.advance(1.0)
        assert stand.entries("/c") == {"ticks": 2}


def test_errors_are_raised() -> None:
    with behaviour_stand(Clock()) as stand:
        stand.register("/c", kind="clock")
        for name, error in (("refuse", OperationRefused), ("fail", InternalError), ("missing", NotFound)):
            with pytest.raises(error):
                stand.invoke("/c", name)
        with pytest.raises(NotFound):
            stand.register("/x", kind="unknown")
        with pytest.raises(NotFound):
            stand.delete("/c", "absent")


def test_plain_writes_and_what_listeners_made_of_them() -> None:
    with behaviour_stand(Clock) as stand:
        stand.register("/c", kind="clock")
        stand.set("/c", "in", {"a": [1]}, actor="ada")
        assert stand.get("/c", "in") == {"a": [1]}
        assert stand.items("/c", "heard") == [{"of": "ada"}]
        types = [event.type for event in stand.events("/c")]
        assert types == [EventType.ENVIRONMENT_REGISTERED, EventType.ENTRY_SET, EventType.ENTRY_APPENDED]
        assert stand.items("/c", "nothing") == [] and stand.get("/c", "nothing") is None
        stand.delete("/c")
        with pytest.raises(NotFound):
            stand.entries("/c")


def test_a_kill_forgets_what_ran_and_a_stop_too() -> None:
    for restart in ("kill_and_restart", "restart"):
        with behaviour_stand(Clock) as stand:
            stand.register("/c", kind="clock")
            running = stand.begin("/c", "tick", seconds=3.0)
            getattr(stand, restart)()
            stand.advance(10.0)
            assert not running.done
            assert stand.get("/c", "ticks") is None
            assert stand.revision == 2


def test_a_failed_commit_fails_the_test() -> None:
    with pytest.raises(OSError, match="disk"), behaviour_stand(Clock) as stand:
        stand.engine.log.fail_next(OSError("disk"))
        stand.engine.do(put("/", "k", 1))
