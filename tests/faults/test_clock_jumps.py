"""A wall clock that jumps by an hour, forth and back, and one that stands still: nothing that counts time notices.

Needs libfaketime; the file it reads says which time it is.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import ecumene
import pytest
from ecumene.client import EventFilter, EventType, Gate

from tests.services import ServerProcess

LIBRARIES = ("usr/lib/*/faketime/libfaketime.so.1", "usr/lib/faketime/libfaketime.so.1")
JUMPS = ("+1h", "-1h", "+0")
TTL_S = 2.0


@pytest.fixture
def faketime(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing_toolchain: Callable[[str], NoReturn]
) -> Callable[[str], None]:
    """Sets the wall clock of servers that are started from now on; the monotonic one goes on."""
    found = [path for pattern in LIBRARIES for path in Path("/").glob(pattern)]
    if not found:
        missing_toolchain("libfaketime, to let the clock jump")
    file = tmp_path / "faketime"
    monkeypatch.setenv("LD_PRELOAD", str(found[0]))
    monkeypatch.setenv("FAKETIME_TIMESTAMP_FILE", str(file))
    monkeypatch.setenv("FAKETIME_NO_CACHE", "1")
    monkeypatch.setenv("FAKETIME_DONT_FAKE_MONOTONIC", "1")

    def jump(to: str) -> None:
        file.write_text(to + "\n")

    jump("+0")
    return jump


async def test_a_clock_that_jumps_ends_no_lease_and_loses_nothing(
    faketime: Callable[[str], None], tmp_path: Path
) -> None:
    with ServerProcess(tmp_path / "data") as server:
        async with ecumene.connect(server.address) as world:
            place = world.environment("/")
            watch = world.watch(from_revision=1)
            lease = await world.lease(TTL_S)
            await place.create("mine", 1, lease_id=lease.id)
            walls = []
            for number, jump in enumerate(JUMPS, 1):
                faketime(jump)
                written = await place.increment("n", 1)
                assert written.value == number
                async for event in watch:
                    if event.key == "n":
                        walls.append(event.wall_time_ns)
                        break
                await asyncio.sleep(TTL_S / 2)  # less than the lease has, if nobody counts the jump
                assert (await place.get("mine")).value == 1, f"the lease ended by a jump of {jump}"
            hours = [round((wall - walls[2]) / 3.6e12) for wall in walls]
            assert hours == [1, -1, 0], "the clock has not jumped: this shows nothing"
            await lease.revoke()
            async for event in watch:
                if event.type is EventType.ENTRY_DELETED:
                    break
            await watch.aclose()
        assert server.stop() == 0
        server.start()
        async with ecumene.connect(server.address) as world:
            assert await world.environment("/").value("n") == len(JUMPS)


DEADLINE_S = 5.0


async def test_a_deadline_counts_over_a_kill_whatever_the_wall_clock_does(
    faketime: Callable[[str], None], tmp_path: Path
) -> None:
    """Killed in its first half, started again an hour later by the wall clock: the gate opens in time, not earlier."""
    with ServerProcess(tmp_path / "data") as server:
        async with ecumene.connect(server.address) as world:
            place = world.environment("/round")
            await place.register(gates=[Gate("g", deadline_ms=round(DEADLINE_S * 1000))])
            before_s = time.monotonic()
            await place.begin_generation("g")
            after_s = time.monotonic()
        server.kill()
        faketime("+1h")
        await asyncio.sleep(max(0.0, after_s + DEADLINE_S / 2 - time.monotonic()))
        server.start()
        started_s = time.monotonic()
        async with ecumene.connect(server.address) as world:
            async for event in world.watch(EventFilter(path_prefix="/round"), from_revision=1):
                if event.type is EventType.GATE_OPENED:
                    break
            opened_s = time.monotonic()
            assert event.value["cause"] == "deadline"
        assert opened_s - before_s >= DEADLINE_S, "it opened early"
        assert opened_s < started_s + DEADLINE_S, "it began anew"
