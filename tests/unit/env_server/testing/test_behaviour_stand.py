"""The stand says what happened, also when that is an error or has not happened yet."""

from __future__ import annotations

from typing import Any

import pytest

from env_server.behaviours import Behaviour, Context, Event, EventType, Target, listener, operation
from env_server.model.errors import InternalError, NotFound, OperationRefused
from env_server.testing import StillRunning, behaviour_stand
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
