"""More clients than a world remembers: one forgotten with frames unanswered is told so, and nothing is done twice."""

from __future__ import annotations

import asyncio
from pathlib import Path

import ecumene
import grpc
import pytest
from ecumene.client import ClientSettings
from env_api.v1 import session_pb2

from env_server.model.limits import Limits
from tests.raw_client import RawSession
from tests.services import ServerProcess
from tests.tcp_proxy import TcpProxy

QUICK = ClientSettings(backoff_first_ms=5, backoff_ms_max=50, attempt_timeout_s=5, call_timeout_s=60)
AT_ONCE = 50
LONG = pytest.mark.long


async def crowd(address: str, first: int, count: int) -> None:
    """So many clients, a multiple of AT_ONCE, come, write once each, and leave."""

    async def come(channel: grpc.aio.Channel, number: int) -> None:
        session = await RawSession(channel, f"crowd-{number}").open()
        await session.do(session_pb2.Op(key="crowd", add_int=1))
        session.cancel()

    async with grpc.aio.insecure_channel(address) as channel:
        for start in range(first, first + count, AT_ONCE):
            await asyncio.gather(*[come(channel, number) for number in range(start, start + AT_ONCE)])


async def lose_answers(proxy: TcpProxy, world: ecumene.World, direct: ecumene.World) -> list[asyncio.Task[object]]:
    """An op and a frame take effect, and nobody hears of it: the link is gone."""
    proxy.drops_answers = True
    tasks = [
        asyncio.create_task(world.environment("/").increment("n"), name="op"),
        asyncio.create_task(world.frames.send_block("/", ["framed"], [1], add=True), name="frame"),
    ]
    async with asyncio.timeout(20):
        while await direct.environment("/").value("framed", default=0) == 0:  # noqa: ASYNC110 - in another process
            await asyncio.sleep(0.01)
    proxy.refuses = True
    proxy.cut()
    return tasks  # type: ignore[return-value]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("ends", ["kill", pytest.param("none", marks=LONG), pytest.param("stop", marks=LONG)])
async def test_a_client_pushed_out_by_ten_thousand_others_is_told_and_nothing_is_done_twice(
    tmp_path: Path, ends: str
) -> None:
    with ServerProcess(tmp_path / "data") as server:
        async with (
            TcpProxy(server.address) as proxy,
            ecumene.connect(server.address, settings=QUICK) as direct,
            ecumene.connect(proxy.address, client_id="pushed-out", settings=QUICK) as world,
        ):
            await world.environment("/").increment("n")
            lost = await lose_answers(proxy, world, direct)
            await crowd(server.address, 0, Limits().sessions_max + AT_ONCE)
            if ends == "stop":
                assert await asyncio.to_thread(server.stop) == 0
            elif ends == "kill":
                await asyncio.to_thread(server.kill)
            if ends != "none":
                await asyncio.to_thread(server.start)
            proxy.drops_answers = proxy.refuses = False
            errors = await asyncio.gather(*lost, return_exceptions=True)
            assert [type(error) for error in errors] == [ecumene.SessionExpiredError] * 2, errors
            assert all(error.executed is ecumene.Executed.UNKNOWN for error in errors)  # type: ignore[union-attr]
            place = world.environment("/")
            assert await place.value("n") == 2
            assert await place.value("framed") == 1
            assert (await place.increment("n")).value == 3, "the session goes on"
            assert await direct.environment("/").value("crowd") == Limits().sessions_max + AT_ONCE


async def test_a_fresh_client_whose_first_frames_were_lost_is_executed_over_restarts(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        async with (
            TcpProxy(server.address) as proxy,
            ecumene.connect(proxy.address, settings=QUICK) as world,
        ):
            proxy.is_silent = True
            first = asyncio.create_task(world.environment("/").increment("n"), name="first")
            while not world.statistics().outbox.frames_in_flight:  # noqa: ASYNC110 - the SDK's own writer sends it
                await asyncio.sleep(0.001)
            proxy.refuses = True
            proxy.cut()
            proxy.is_silent = False
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.start)
            proxy.refuses = False
            assert (await first).value == 1
