"""A town whose agents live by its clock, and what its log tells of when they were woken."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

from ecumene.client import Clock, ClockState, EventFilter, EventType, World

from tests.faults.waking_agents import DAY_NS, HOUR_NS, LOG, WAKES, minute_of
from tests.unit.agent_runtime.stage import write_agents

AGENTS = "tests.faults.waking_agents"
TTL_S = 4.0
DONE_S = 60.0
THINKING = {"kind": "uniform", "high_ms": 50}


def describe_town(
    folder: Path, *, residents: int, hourly: int, parts: int = 2, ttl_s: float = TTL_S, **more: Any
) -> dict[str, Any]:
    """Two groups: `residents` who have memories and calendars, and `hourly` ones that follow a rule."""
    groups: list[dict[str, Any]] = []
    for name, agent, count in (("residents", "Resident", residents), ("hourly", "Cohort", hourly)):
        ids = [f"{name[0]}-{number}" for number in range(count)]
        own = {"wake": [{"path": "/town/bell"}]} if name == "residents" else {"thinking": THINKING}
        group = {"name": name, "agent": f"{AGENTS}:{agent}", "parts": parts, **own}
        path = str(write_agents(folder / f"{name}.arrow", ids))
        groups.append({**group, "agents": path, "clock": "/town", "first_wake_ns": 7 * HOUR_NS})
    worker = {"lease_ttl_s": ttl_s, "cursor_interval_s": 0.3, "stop_timeout_s": 5}
    return {"run": "r", "workers": 1, "worker": worker, "groups": groups, **more}


class Town:
    """The world of it, with a clock that is advanced by hand."""

    def __init__(self, world: World, *, residents: int, hourly: int) -> None:
        self._world = world
        self._residents = [f"r-{number}" for number in range(residents)]
        self._hourly = [f"h-{number}" for number in range(hourly)]
        self.clock = world.environment("/town").clock()

    async def prepare(self, clock: Clock | None = None) -> None:
        """Make it; its clock begins at midnight, and is advanced by hand if it is not told otherwise."""
        await self._world.environment("/town").register(clock=clock or Clock.manual())
        for path in (WAKES, LOG, "/town/bell"):
            await self._world.environment(path).register()

    async def advance(self, hours: float) -> ClockState:
        """Let time go on."""
        return await self.clock.advance(by_ns=round(hours * HOUR_NS))

    async def wait_until(self, now_ns: int) -> None:
        """Until all who were to be woken by then have been, whoever hosts them."""
        wanted = self.expect_log(now_ns), self.expect_seen(now_ns)
        found: tuple[Any, Any] = ({}, {})
        try:
            async with asyncio.timeout(DONE_S):
                while found != wanted:
                    found = await self.read_logs(), await self.read_seen()
                    assert all(len(log) <= len(wanted[0][agent]) for agent, log in found[0].items()), found[0]
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise AssertionError(f"{found} in place of {wanted}") from None

    def expect_log(self, now_ns: int) -> dict[str, list[Any]]:
        """What each resident has logged by then."""
        log = []
        for day in range(now_ns // DAY_NS + 1):
            for hour, name, payload in ((7, "", None), (12, "noon", None), (19, "evening", {"do": "dance"})):
                if day * DAY_NS + hour * HOUR_NS <= now_ns:
                    log.append([day, hour, name, payload])
        return dict.fromkeys(self._residents, log)

    def expect_seen(self, now_ns: int) -> dict[str, float]:
        """The hour of its last wake, by hourly agent."""
        hours = {agent: (now_ns - minute_of(agent)) // HOUR_NS for agent in self._hourly}
        return {agent: float(hour + 1) for agent, hour in hours.items() if hour >= 7}

    async def read_logs(self) -> dict[str, list[Any]]:
        """By resident."""
        logs: dict[str, list[Any]] = {agent: [] for agent in self._residents}
        async for entry in self._world.environment(LOG).entries():
            page = await self._world.environment(LOG).read_stream(entry.key, limit=1000)
            logs[entry.key] = [item.value for item in page.items]
        return logs

    async def read_seen(self) -> dict[str, Any]:
        """By hourly agent."""
        values = [(entry.key, entry.value) async for entry in self._world.environment(WAKES).entries("h-")]
        return dict(values)

    async def check_once(self, now_ns: int) -> None:
        """Every wake had one effect, in order, and each agent remembers all of its own."""
        await self.wait_until(now_ns)
        counts = [(entry.key, entry.value) async for entry in self._world.environment(WAKES).entries("r-")]
        assert dict(counts) == {agent: len(log) for agent, log in self.expect_log(now_ns).items()}
        writes: Counter[str] = Counter()
        last = (await self._world.environment("/town/bell").set("done", 1)).revision
        watch = self._world.watch(EventFilter(path_prefix=WAKES, types=(EventType.ENTRY_SET,)), from_revision=1)
        also = self._world.watch(EventFilter(path_prefix="/town/bell"), from_revision=last)
        async with watch, also:
            await anext(also)
            wanted = sum(int(seen) - 7 for seen in self.expect_seen(now_ns).values())
            seen: dict[str, float] = {}
            while sum(writes.values()) < wanted:
                event = await anext(watch)
                assert event.value == seen.get(event.key, 7.0) + 1, (event, event.value, seen.get(event.key))
                seen[event.key] = event.value
                writes[event.key] += 1
