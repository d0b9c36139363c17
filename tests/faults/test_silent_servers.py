"""Servers that say nothing, and addresses where none is: noticed in time, told with the cause, resumed without loss.

Cases 11 and 22.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import ecumene
import pytest
from ecumene import ClientSettings, World, Worlds

from tests.services import ServerProcess
from tests.tcp_proxy import TcpProxy

PATIENT = ClientSettings(backoff_first_ms=10, backoff_ms_max=200, attempt_timeout_s=1, reconnect_timeout_s=60)
INTERVALS = 3
HEARTBEAT_S = 1.0
SLACK_S = 0.8
HEARTBEAT = ("--heartbeat-ms", "1000")


async def hears_of_silence(world: World) -> float:
    """Seconds until the connection counts as broken."""
    loop = asyncio.get_running_loop()
    started = loop.time()
    while world.statistics().is_connected:  # noqa: ASYNC110 - only a look tells
        await asyncio.sleep(0.01)
    return loop.time() - started


async def read_keys(watch: Any, count: int) -> list[str]:
    return [(await anext(watch)).key for _ in range(count)]


@pytest.mark.timeout(180)
async def test_a_connection_that_drops_everything_is_noticed_in_time_and_resumed_without_loss(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", *HEARTBEAT) as server:
        async with (
            TcpProxy(server.address) as proxy,
            ecumene.connect(server.address) as beside,
            ecumene.connect(proxy.address, settings=PATIENT) as world,
        ):
            room = world.environment("/")
            watch = room.watch()
            await room.set("before", 1)
            proxy.is_silent = True
            write = asyncio.create_task(room.increment("count"), name="write")
            for number in range(20):
                await beside.environment("/").set(f"missed-{number}", number)
            noticed_s = await hears_of_silence(world)
            assert noticed_s < INTERVALS * HEARTBEAT_S + SLACK_S
            assert noticed_s > (INTERVALS - 1) * HEARTBEAT_S - SLACK_S, "a single late message is no silence"
            assert not write.done()
            proxy.is_silent = False
            proxy.cut()
            async with asyncio.timeout(30):
                assert (await write).value == 1
                keys = await read_keys(watch, 22)
            assert keys == ["before", *[f"missed-{number}" for number in range(20)], "count"]
            assert await beside.environment("/").value("count") == 1


@pytest.mark.long
@pytest.mark.timeout(180)
async def test_a_server_that_stands_still_is_noticed_in_time_and_resumed_without_loss(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", *HEARTBEAT) as server:
        async with ecumene.connect(server.address, settings=PATIENT) as world:
            room = world.environment("/")
            watch = room.watch()
            await room.set("before", 1)
            server.pause()
            write = asyncio.create_task(room.increment("count"), name="write")
            assert await hears_of_silence(world) < INTERVALS * HEARTBEAT_S + SLACK_S
            await asyncio.sleep(3)
            server.resume()
            async with asyncio.timeout(30):
                assert (await write).value == 1
                assert await read_keys(watch, 2) == ["before", "count"]
            assert await room.value("count") == 1


@pytest.fixture(params=["closed", "deaf", "hangs up", "http/1", "garbage", "no such host"])
async def wrong_address(request: pytest.FixtureRequest) -> AsyncIterator[str]:
    """An address where no server of ours is."""
    greetings = {
        "hangs up": b"",
        "http/1": b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n",
        "garbage": bytes(range(256)) * 20,
    }
    if request.param == "no such host":
        yield "no-such-host.invalid:7170"
    elif request.param in ("closed", "deaf"):
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            if request.param == "deaf":
                unused.listen()
            yield f"127.0.0.1:{unused.getsockname()[1]}"
    else:

        def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(greetings[request.param])
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        server.close()


async def fails_in_time(call: Any, within_s: float, address: str) -> None:
    """It fails within its deadline, in one line that names the address and the cause."""
    loop = asyncio.get_running_loop()
    started = loop.time()
    with pytest.raises(ecumene.ConnectionFailedError) as caught:
        await call
    assert loop.time() - started < within_s + 1.5
    text = str(caught.value)
    assert address in text
    assert "\n" not in text
    cause = caught.value.cause
    assert str(cause) in text
    assert len(str(cause)) > 5
    assert caught.value.__cause__ is cause


async def test_a_wrong_address_fails_within_the_deadline_with_the_cause(wrong_address: str) -> None:
    settings = ClientSettings(backoff_first_ms=10, backoff_ms_max=100)
    await fails_in_time(ecumene.connect(wrong_address, timeout_s=0.8, settings=settings), 0.8, wrong_address)
    await fails_in_time(
        ecumene.connect(wrong_address, timeout_s=0.8, settings=settings, create=True), 0.8, wrong_address
    )
    async with Worlds(wrong_address, settings, 0.8) as worlds:
        await fails_in_time(worlds.list(), 0.8, wrong_address)


async def test_calls_outside_the_session_fail_in_time_too_when_the_server_is_gone(tmp_path: Path) -> None:
    settings = ClientSettings(call_timeout_s=0.8, flush_timeout_s=0.1)
    with ServerProcess(tmp_path / "data", *HEARTBEAT) as server:
        world = await ecumene.connect(server.address, settings=settings)
        lease = await world.lease(60)
        server.kill()
        for call in (lease.revoke(), world.lease(60)._grant(), world.subscription("inbox").create()):
            await fails_in_time(call, 0.8, server.address)
        with pytest.raises(ecumene.DeadlineExceededError):
            await world.environment("/", timeout_s=0.5).set("a", 1)
        await world.close()
