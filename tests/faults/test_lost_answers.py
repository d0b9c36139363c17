"""Answers that are dropped, delayed, or come twice: asked again, every op has its effect once.

The same for the SDK's sessions, for frames without it, and for calls that name a producer or a request id.
"""

from __future__ import annotations

import asyncio
import random
import uuid
from pathlib import Path

import ecumene
import grpc
import pytest
from ecumene.client import ClientSettings
from env_api.v1 import environment_service_pb2 as service
from env_api.v1 import operations_pb2 as operations
from env_api.v1 import session_pb2

from tests.raw_client import Failure, RawSession, call
from tests.services import ServerProcess
from tests.tcp_proxy import TcpProxy

SETTINGS = ClientSettings(backoff_first_ms=5, backoff_ms_max=50, attempt_timeout_s=2)
CUTS, CUTS_LONG = 10, 100
WRITERS = 3
BETWEEN_S = 0.02
# A channel that was cut must not lend its connection to the next one.
OPTIONS = [("grpc.use_local_subchannel_pool", 1)]


async def write_on(world: ecumene.client.World, name: str, stopped: asyncio.Event) -> int:
    """Counters, streams and transactions until told to stop; each must succeed. Returns how many rounds."""
    place = world.environment("/")
    number = 0
    while not stopped.is_set():
        number += 1
        both = world.transaction().increment("/", f"{name}-a", 1).increment("/", f"{name}-b", -1)
        done = await asyncio.gather(place.increment("n", 1), place.append(f"{name}-log", number), both.commit())
        assert done[1].sequence == number
    return number


async def disturb(proxy: TcpProxy, cuts: int, chance: random.Random) -> None:
    """Drops answers for a moment, then cuts the connections, so that nobody knows what was done."""
    for _ in range(cuts):
        await asyncio.sleep(chance.uniform(0, BETWEEN_S))  # the moment of the fault
        await drop(proxy, 1)
        proxy.cut()
        proxy.drops_answers = False


async def drop(proxy: TcpProxy, size_bytes: int) -> None:
    """Drops answers until so many bytes of them are gone, and on."""
    wanted = proxy.answer_bytes_dropped + size_bytes
    proxy.drops_answers = True
    async with asyncio.timeout(30):
        while proxy.answer_bytes_dropped < wanted:  # noqa: ASYNC110 - only a look tells
            await asyncio.sleep(0.001)


async def lose_answers(directory: Path, cuts: int, chance: random.Random) -> None:
    with ServerProcess(directory) as server:
        async with TcpProxy(server.address) as proxy:
            worlds = [await ecumene.connect(proxy.address, settings=SETTINGS) for _ in range(WRITERS)]
            stopped = asyncio.Event()
            names = [f"w{number}" for number in range(WRITERS)]
            writers = [
                asyncio.create_task(write_on(world, name, stopped), name=name)
                for world, name in zip(worlds, names, strict=True)
            ]
            await disturb(proxy, cuts, chance)
            stopped.set()
            rounds = await asyncio.gather(*writers)
            assert len(proxy.attempts_at) >= cuts, "every cut broke something"
            place = worlds[0].environment("/")
            assert await place.value("n") == sum(rounds)
            for name, count in zip(names, rounds, strict=True):
                assert await place.value(f"{name}-a") == count
                assert await place.value(f"{name}-b") == -count
                assert (await place.read_stream(f"{name}-log", from_sequence=count)).items[0].value == count
            for world in worlds:
                await world.close()
        assert server.stop() == 0


async def test_the_sdk_repeats_what_was_not_answered_and_it_is_done_once(tmp_path: Path, seed: int) -> None:
    await lose_answers(tmp_path / "data", CUTS, random.Random(seed))


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_many_lost_answers_of_the_sdk(tmp_path: Path, seed: int) -> None:
    await lose_answers(tmp_path / "data", CUTS_LONG, random.Random(seed))


@pytest.mark.parametrize("way", ["producer", "request_id"])
async def test_a_call_whose_answer_was_dropped_is_done_once(tmp_path: Path, way: str) -> None:
    """Case 13: the answer is lost, the client asks again, there is one effect."""
    with ServerProcess(tmp_path / "data") as server:
        async with TcpProxy(server.address) as proxy:
            for number in range(1, 11):
                caller = service.Caller(producer="p", producer_seq=number)
                if way == "request_id":
                    caller = service.Caller(request_id=str(uuid.UUID(int=number, version=4)))
                answer = await ask_until_answered(proxy, number % 3 != 0, caller)
                assert answer.written.value.int_value == number
                assert answer.duplicate == (number % 3 != 0)
        async with ecumene.connect(server.address) as world:
            entry = await world.environment("/").get("n")
            assert (entry.value, entry.version) == (10, 10)


async def ask_until_answered(proxy: TcpProxy, loses_one: bool, caller: service.Caller) -> service.UpdateResponse:
    """Adds one. The first answer is dropped, if so asked, after the server has sent it."""
    update = operations.Update(add_int=1)
    if loses_one:
        async with grpc.aio.insecure_channel(proxy.address, options=OPTIONS) as channel:
            await channel.channel_ready()
            asking = call(channel, "update", path="/", key="n", update=update, caller=caller)
            lost = asyncio.create_task(asking, name="the call whose answer is lost")
            await drop(proxy, 100)  # more than an acknowledgement of the transport
            proxy.cut()
            failure = await lost
            assert isinstance(failure, Failure)
            assert not failure.reason
            proxy.drops_answers = False
    async with grpc.aio.insecure_channel(proxy.address, options=OPTIONS) as channel:
        answer = await call(channel, "update", path="/", key="n", update=update, caller=caller)
    assert isinstance(answer, service.UpdateResponse)
    return answer


async def test_frames_that_come_twice_and_out_of_order_have_one_effect(tmp_path: Path, seed: int) -> None:
    """A network that doubles: each frame may arrive again, at once or behind later ones, on this stream or the next."""
    chance = random.Random(seed)
    with ServerProcess(tmp_path / "data") as server:
        async with grpc.aio.insecure_channel(server.address) as channel:
            session = await RawSession(channel, "doubled").open()
            sent: list[session_pb2.OpFrame] = []
            first: dict[int, str] = {}
            for number in range(1, 201):
                frame = session_pb2.OpFrame(seq=number, paths=["/"])
                frame.ops.add(key="n", add_int=1)
                frame.ops.add(key="log", update=operations.Update(append={"int_value": number}))
                sent.append(frame)
                again = [chance.choice(sent[-20:]) for _ in range(chance.randrange(3))]
                for one in [frame, *again]:
                    (part,) = await session.send(one)
                    for outcome in part.outcomes:
                        outcome.duplicate = False
                    part.revision = 0
                    assert first.setdefault(one.seq, str(part)) == str(part), "the first outcome"
                if number % 50 == 0:
                    session.cancel()
                    session = await RawSession(channel, "doubled").open()
            session.cancel()
        async with ecumene.connect(server.address) as world:
            assert await world.environment("/").value("n") == 200
            items = (await world.environment("/").read_stream("log")).items
            assert [item.value for item in items] == list(range(1, 201))
