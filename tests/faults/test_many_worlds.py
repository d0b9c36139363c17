"""More worlds than a server holds open, over kills: each is there when somebody asks, what lives is never closed."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from pathlib import Path
from typing import Any

import grpc
from env_api.v1 import admin_service_pb2 as admin_pb2
from env_api.v1 import lease_service_pb2 as leases_pb2
from env_api.v1 import operations_pb2 as operations
from env_api.v1 import queries_pb2
from env_api.v1 import world_service_pb2 as worlds_pb2

from tests.raw_client import Failure, RawSession, call, decode_call_error
from tests.services import ServerProcess

WORLDS = 100
OPEN_MAX = 64
NAMES = [f"w{number:03}" for number in range(WORLDS)]


async def ask(channel: grpc.aio.Channel, service: str, messages: Any, verb: str, **fields: Any) -> Any:
    request, response = getattr(messages, f"{verb}Request")(**fields), getattr(messages, f"{verb}Response")
    method = channel.unary_unary(f"/env_api.v1.{service}/{verb}", type(request).SerializeToString, response.FromString)
    try:
        return await method(request, timeout=60)
    except grpc.aio.AioRpcError as error:
        return decode_call_error(error)


async def count_open(channel: grpc.aio.Channel) -> int:
    found = await ask(channel, "AdminService", admin_pb2, "GetServerInfo")
    assert found.worlds_open <= OPEN_MAX
    return int(found.worlds_open)


async def add(channel: grpc.aio.Channel, world: str, key: str = "n") -> int:
    response = await call(channel, "update", world=world, path="/", key=key, update=operations.Update(add_int=1))
    assert not isinstance(response, Failure), response
    return int(response.written.value.int_value)


async def read(channel: grpc.aio.Channel, world: str, key: str = "n") -> int:
    response = await call(
        channel, "query", world=world, path="/", key=key, query=queries_pb2.Query(get=queries_pb2.Get())
    )
    assert not isinstance(response, Failure), response
    return int(response.result.entry.value.int_value)


async def list_open(channel: grpc.aio.Channel) -> dict[str, bool]:
    listed = await ask(channel, "WorldService", worlds_pb2, "ListWorlds")
    return {world.name: world.open for world in listed.worlds}


async def test_a_hundred_worlds_over_kills(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    server = ServerProcess(tmp_path / "data", "--map-mib", "16")
    counts: Counter[str] = Counter()
    with server:
        async with grpc.aio.insecure_channel(server.address) as channel:
            for number, name in enumerate(NAMES):
                made = await ask(channel, "WorldService", worlds_pb2, "CreateWorld", name=name)
                assert not isinstance(made, Failure), made
                counts[name] = await add(channel, name)
                if number == 5:
                    granted = await ask(
                        channel, "LeaseService", leases_pb2, "GrantLease", world=name, ttl_ms=86_400_000
                    )
                    assert granted.lease_id
            assert await count_open(channel) == OPEN_MAX
            session = await RawSession(channel, "stays", NAMES[7]).open()
        for _ in range(3):
            async with grpc.aio.insecure_channel(server.address) as channel:
                session = await RawSession(channel, "stays", NAMES[7]).open()
                for _ in range(60):
                    name = chance.choice(NAMES)
                    counts[name] += 1
                    assert await add(channel, name) == counts[name]
                listed = await list_open(channel)
                assert set(listed) == {"main", *NAMES}
                assert listed["main"]
                assert listed[NAMES[5]], "a lease lives in it"
                assert listed[NAMES[7]], "a session lives in it"
                await count_open(channel)
                session.cancel()
            server.kill()
            server.start()
            async with grpc.aio.insecure_channel(server.address) as channel:
                open_now = {name for name, is_open in (await list_open(channel)).items() if is_open}
                assert NAMES[5] in open_now
                leases = await ask(channel, "LeaseService", leases_pb2, "ListLeases", world=NAMES[5])
                assert len(leases.leases) == 1
        async with grpc.aio.insecure_channel(server.address) as channel:
            for name in NAMES:
                assert await read(channel, name) == counts[name]
        assert "Traceback" not in server.log_path.read_text()
        assert server.stop() == 0
        server.start()
        async with grpc.aio.insecure_channel(server.address) as channel:
            listed = await list_open(channel)
            assert {name for name, is_open in listed.items() if is_open} == {"main", NAMES[5]}
            assert len(listed) == WORLDS + 1


async def test_a_crowd_over_all_worlds_at_once_and_a_kill_in_the_middle(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    with ServerProcess(tmp_path / "data", "--map-mib", "16") as server:
        async with grpc.aio.insecure_channel(server.address) as channel:
            made = [ask(channel, "WorldService", worlds_pb2, "CreateWorld", name=name) for name in NAMES]
            assert not [one for one in await asyncio.gather(*made) if isinstance(one, Failure)]
            done: Counter[str] = Counter()

            async def client() -> None:
                for _ in range(40):
                    name = chance.choice(NAMES)
                    response = await call(
                        channel, "update", world=name, path="/", key="n", update=operations.Update(add_int=1)
                    )
                    if isinstance(response, Failure):
                        assert not response.reason, response  # the server was killed meanwhile
                        return
                    done[name] += 1

            clients = [asyncio.create_task(client()) for _ in range(16)]
            while sum(done.values()) < 300:  # noqa: ASYNC110 - the clients' progress has no event
                await asyncio.sleep(0.005)
            await count_open(channel)
            server.kill()
            await asyncio.gather(*clients)
        server.start()
        async with grpc.aio.insecure_channel(server.address) as channel:
            for name, count in done.items():
                assert count <= await read(channel, name) <= count + 16
            assert len(await list_open(channel)) == WORLDS + 1
        assert "Traceback" not in server.log_path.read_text()
        assert server.stop() == 0
