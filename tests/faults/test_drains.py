"""Servers that drain and come back under load: no idempotent call fails in the SDK's view, and each has one effect."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import ecumene
import pytest
from ecumene import ClientSettings, EventFilter, World, Worlds

from tests.services import ServerProcess

SETTINGS = ClientSettings(backoff_first_ms=10, backoff_ms_max=300, reconnect_timeout_s=60, call_timeout_s=60)
CLIENTS = 4
CALLS_BETWEEN_DRAINS = 400


class Caller:
    """Calls one thing after the other, each waited for; counts what succeeded. Any failure ends it with the test."""

    def __init__(self, name: str, call: Callable[[int], Awaitable[Any]]) -> None:
        self.name = name
        self.done = 0
        self.wants_more = True
        self._call = call

    async def run(self) -> None:
        """Until told to stop."""
        while self.wants_more:
            await self._call(self.done + 1)
            self.done += 1


def list_callers(worlds: list[World], unary: Worlds, inbox: ecumene.Deliveries) -> list[Caller]:
    """Everything that the SDK may repeat."""
    callers = []
    for number, world in enumerate(worlds):
        place = world.environment("/load", timeout_s=60)
        callers += [
            Caller(f"increment-{number}", lambda _, place=place: place.increment("shared")),  # type: ignore[misc]
            Caller(f"append-{number}", lambda n, place=place: place.append("log", n)),  # type: ignore[misc]
            Caller(f"read-{number}", lambda _, place=place: place.get("shared")),  # type: ignore[misc]
            Caller(f"entries-{number}", lambda _, place=place: read_all(place)),  # type: ignore[misc]
            Caller(f"frame-{number}", lambda _, world=world: send_frame(world)),  # type: ignore[misc]
            Caller(f"move-{number}", lambda _, world=world: move(world)),  # type: ignore[misc]
        ]

    async def effect(_: int) -> None:
        delivery = await anext(inbox)
        try:
            transaction = worlds[0].transaction().acknowledge(delivery)
            await transaction.increment("/load", "effects", len(delivery)).commit()
        except ecumene.FencedError:
            pass  # a drain ended the consumer's term: it comes again, its effect has not been had

    callers += [
        Caller("worlds", lambda _: unary.list()),
        Caller("create", lambda _: unary.create("main", if_absent=True)),
        Caller("lease", lambda _: lease_and_return(worlds[0])),
        Caller("effects", effect),
    ]
    return callers


async def read_all(place: ecumene.Environment) -> None:
    async for _ in place.entries():
        pass


async def send_frame(world: World) -> None:
    frame = world.frame()
    frame.increment("/load", "framed")
    (await world.frames.send(frame)).raise_failure()


async def move(world: World) -> None:
    await world.transaction().increment("/load", "from", -1).increment("/load", "to", 1).commit()


async def lease_and_return(world: World) -> None:
    await (await world.lease(60)).revoke()


async def run_drains(tmp_path: Path, drains: int) -> None:
    with ServerProcess(tmp_path / "data", "--drain-s", "2") as server:
        worlds = [await ecumene.connect(server.address, settings=SETTINGS) for _ in range(CLIENTS)]
        unary = Worlds(server.address, SETTINGS, 60)
        observer = worlds[0].environment("/load")
        await observer.register()
        await observer.create_stream("log", items_max=1_000_000)
        inbox = worlds[0].subscription("inbox")
        await inbox.create(EventFilter(path_prefix="/load", key_glob="shared"))
        consumed = inbox.consume()
        watch = observer.watch(key_glob="shared")
        callers = list_callers(worlds, unary, consumed)
        tasks = [asyncio.create_task(caller.run(), name=caller.name) for caller in callers]
        try:
            async with asyncio.timeout(60 + 30 * drains):
                for _ in range(drains):
                    await with_load(callers, tasks)
                    server.terminate()
                    assert await asyncio.to_thread(server.wait) == 0
                    await asyncio.to_thread(server.start)
                await with_load(callers, tasks)
                for caller in callers:
                    caller.wants_more = caller.name == "effects"
                await asyncio.gather(*[task for task in tasks if task.get_name() != "effects"])
                await check(observer, callers, watch)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await watch.aclose()
            for world in worlds:
                await world.close()
            await unary.close()


async def with_load(callers: list[Caller], tasks: list[asyncio.Task[None]]) -> None:
    """Return when every caller has been answered again, and all together often; a failed call fails the test."""
    before = [caller.done for caller in callers]
    while (
        sum(caller.done for caller in callers) - sum(before) < CALLS_BETWEEN_DRAINS
        or min(caller.done - at for caller, at in zip(callers, before, strict=True)) < 1
    ):
        done, _ = await asyncio.wait(tasks, timeout=0.05, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
            raise AssertionError(f"{task.get_name()} ended")


async def check(observer: ecumene.Environment, callers: list[Caller], watch: ecumene.Watch) -> None:
    """Every call had one effect, and the watch told each."""
    done = {
        kind: sum(caller.done for caller in callers if caller.name.startswith(kind))
        for kind in ("increment", "append", "frame", "move")
    }
    totals = {key: await observer.value(key) for key in ("shared", "framed", "from", "to")}
    assert totals == {
        "shared": done["increment"],
        "framed": done["frame"],
        "from": -done["move"],
        "to": done["move"],
    }
    log = await observer.read_stream("log", limit=1)
    assert log.next_sequence - log.first_kept == done["append"]
    sums = [(await anext(watch)).value for _ in range(done["increment"])]
    assert sums == list(range(1, done["increment"] + 1))
    while await observer.value("effects") != done["increment"]:  # noqa: ASYNC110 - the consumer comes to an end
        await asyncio.sleep(0.02)


@pytest.mark.timeout(180)
async def test_no_call_fails_when_the_server_drains_and_restarts_under_load(tmp_path: Path) -> None:
    await run_drains(tmp_path, 2)


@pytest.mark.long
@pytest.mark.timeout(900)
async def test_no_call_fails_over_many_drains(tmp_path: Path) -> None:
    await run_drains(tmp_path, 20)
