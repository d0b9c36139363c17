"""Servers that drain and come back under load: no idempotent call fails in the SDK's view, and each has one effect."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import ecumene
import grpc
import pytest
from ecumene import ClientSettings, EventFilter, World, Worlds
from env_api.v1 import operations_pb2, session_pb2

from tests.raw_client import Failure, call
from tests.services import ServerProcess

SETTINGS = ClientSettings(backoff_first_ms=10, backoff_ms_max=300, reconnect_timeout_s=60, call_timeout_s=60)
HOLDING = "tests.promises.tally:Blocker"
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


async def call_and_heed(address: str, told: Counter[str]) -> None:
    """Calls without the SDK, one after the other, until the server is gone; waits as long as it is told to."""
    options = [("grpc.use_local_subchannel_pool", 1), ("grpc.enable_retries", 0)]
    async with grpc.aio.insecure_channel(address, options=options) as channel:
        while True:
            outcome = await call(channel, "update", path="/", key="n", update=operations_pb2.Update(add_int=1))
            if not isinstance(outcome, Failure):
                told["done"] += 1
            elif outcome.reason:
                told[outcome.reason] += 1
                await asyncio.sleep(outcome.retry_delay_ms / 1000)  # what is tested: it heeds the advice
            else:
                told[grpc.StatusCode.UNAVAILABLE.name if outcome.code == 14 else f"code {outcome.code}"] += 1
                return


async def test_calls_in_the_moment_of_a_stop_are_told_why_and_never_cancelled(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", "--drain-s", "2") as server:
        told: Counter[str] = Counter()
        callers = [asyncio.create_task(call_and_heed(server.address, told), name="caller") for _ in range(30)]
        while told["done"] < 300:  # noqa: ASYNC110 - they count themselves
            await asyncio.sleep(0.01)
        server.terminate()
        assert await asyncio.to_thread(server.wait) == 0
        await asyncio.gather(*callers)
        assert told["DRAINING"] >= 30
        assert set(told) == {"done", "DRAINING", "UNAVAILABLE"}, told


async def test_whole_frames_are_sent_again_when_the_server_drains(tmp_path: Path) -> None:
    """Frames in flight and frames that wait, some with ops that hold up the drain: each is done, once."""
    with ServerProcess(tmp_path / "data", "--drain-s", "0.3", "--behaviour", HOLDING) as server:
        async with ecumene.connect(server.address, settings=SETTINGS) as world:
            await world.environment("/hall").register(kind="blocker")
            frames = []
            for number in range(100):
                frame = world.frame()
                frame.increment("/hall", "count")
                if number % 10 == 0:
                    arguments = operations_pb2.Invoke(
                        operation="hold", args_json=b'{"key": "held-%d", "seconds": 1.0}' % number
                    )
                    frame.add("/hall", session_pb2.Op(invoke=arguments), {})
                frames.append(asyncio.create_task(world.frames.send(frame), name=f"frame {number}"))
            while world.statistics().outbox.frames_in_flight < 60:  # noqa: ASYNC110 - the SDK's own writer sends them
                await asyncio.sleep(0.005)
            server.terminate()
            assert await asyncio.to_thread(server.wait) == 0
            await asyncio.to_thread(server.start)
            for result in await asyncio.gather(*frames):
                result.raise_failure()
            assert await world.environment("/hall").value("count") == 100
            held = [await world.environment("/hall").get(f"held-{number}") for number in range(0, 100, 10)]
            assert [entry.version for entry in held] == [1] * 10
            assert world.statistics().streams_opened > 1


@pytest.mark.timeout(180)
async def test_no_call_fails_when_the_server_drains_and_restarts_under_load(tmp_path: Path) -> None:
    await run_drains(tmp_path, 2)


@pytest.mark.long
@pytest.mark.timeout(900)
async def test_no_call_fails_over_many_drains(tmp_path: Path) -> None:
    await run_drains(tmp_path, 20)
