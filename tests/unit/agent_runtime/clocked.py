"""A fake world with a clock, and a group of agents that live by it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agent_runtime.worker.hosted_part import HostedPart
from agent_runtime.worker.part_clock import PartActivity
from tests.unit.agent_runtime.fake_world import FakeWorld
from tests.unit.agent_runtime.stage import PLAYERS, make_launch, wait_until

BOOK = "/runtime/runs/r/wakes/g.0"
TIMER = ("/game", "wakes.r:g.0")


def clocked() -> FakeWorld:
    world = FakeWorld()
    world.clock_ns = 0
    return world


def sleepers(folder: Path, ids: list[str], agent: str = "Sleeper", **more: Any) -> Any:
    group = {"clock": "/game", "first_wake_ns": 100, "resumable": None, **more}
    return make_launch(folder, f"{PLAYERS}:{agent}", ids, **group)


def look(part: HostedPart) -> PartActivity:
    """What the part is about to do."""
    assert part.clock is not None
    return part.clock.activity


async def settle(part: HostedPart) -> None:
    """Until the part has nothing to do before its next wake."""
    await wait_until(lambda: not look(part).is_busy)
