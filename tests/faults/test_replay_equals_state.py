"""Kills at every named place and at random ones, while saving rounds run: the state is what its events tell.

P8 and P10: after each kind of restart, everything that queries answer equals what a watch from revision 1 tells, with
versions and revisions, and every aggregate is the exact one of the entries.
"""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import grpc
import pytest
from env_api.v1 import operations_pb2 as operations
from env_api.v1 import queries_pb2, values_pb2

from tests.faults.random_frames import KEYS, PATHS, make_frame
from tests.faults.replayed_state import check_equal, read, replay
from tests.raw_client import RawSession, call
from tests.services import ServerProcess

CLIENTS = 3
KILLS, KILLS_LONG = 6, 60
PLACES = ["begin", "put", "commit", "publish"]
LIFE_S = (0.1, 0.6)
ANSWER_S = 20.0
OPTIONS = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_reconnect_backoff_ms", 100)]


async def keep_sending(server: ServerProcess, name: str, seed: int, stopped: asyncio.Event) -> int:
    """Frame after frame; one that was not answered is sent again on the next stream. Returns how many were answered."""
    rng = random.Random(f"{seed}-{name}")
    seq = 1
    frame = make_frame(rng, seq)
    async with grpc.aio.insecure_channel(server.address, options=OPTIONS) as channel:
        while not stopped.is_set():
            try:
                session = await RawSession(channel, name).open()
                while not stopped.is_set():
                    async with asyncio.timeout(ANSWER_S):
                        await session.send(frame)
                    seq += 1
                    frame = make_frame(rng, seq)
                session.cancel()
            except (grpc.aio.AioRpcError, AssertionError):  # the server is gone
                await asyncio.sleep(0.05)
    return seq - 1


async def fill(server: ServerProcess) -> None:
    """Leaves something to compare, also when the last random ops have deleted nearly all."""
    async with grpc.aio.insecure_channel(server.address, options=OPTIONS) as channel:
        for path in PATHS:
            await call(channel, "register", path=path, register=operations.Register(if_absent=True))
            for key in KEYS:
                update = operations.Update(set=values_pb2.Value(string_value=path))
                await call(channel, "update", path=path, key=key, update=update)


async def check(server: ServerProcess) -> None:
    async with grpc.aio.insecure_channel(server.address, options=OPTIONS) as channel:
        get = queries_pb2.Query(get=queries_pb2.Get())
        while True:
            revision = (await call(channel, "query", path="/", query=get)).header.revision
            replayed = await replay(channel, "checker", revision)
            told = await read(channel)
            after = (await call(channel, "query", path="/", query=get)).header.revision
            if after == revision:  # no gate's deadline passed meanwhile
                break
        assert sum(len(environment.entries) for environment in told.values()) > 20, "this shows nothing"
        check_equal(told, replayed)


async def run(directory: Path, seed: int, kills: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    # A small map: a saving round begins every 4 MiB of log, so that kills meet them.
    server = ServerProcess(directory / "data", "--map-mib", "64")
    with server:
        stopped = asyncio.Event()
        senders = [
            asyncio.create_task(keep_sending(server, f"sender{number}", seed, stopped), name=f"sender {number}")
            for number in range(CLIENTS)
        ]
        for _ in range(kills):
            await asyncio.sleep(rng.uniform(*LIFE_S))
            server.kill()  # without effect when a failpoint has killed it already
            place = f"{rng.choice(['before', 'after'])}_{rng.choice(PLACES)}"
            monkeypatch.setenv("FAILPOINT", f"{place}:kill:{rng.randrange(5, 100)}" if rng.random() < 0.7 else "")
            server.start()
        await asyncio.sleep(rng.uniform(*LIFE_S))
        server.kill()
        monkeypatch.setenv("FAILPOINT", "")
        server.start()
        await asyncio.sleep(0.5)
        stopped.set()
        assert sum(await asyncio.gather(*senders)) > 10 * kills, "a round with too little load shows nothing"
        await fill(server)
        await check(server)
        assert server.stop() == 0
        server.start()
        await check(server)


async def test_the_state_is_what_its_events_tell(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    await run(tmp_path, seed, KILLS, monkeypatch)


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_the_state_is_what_its_events_tell_after_many_kills(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    await run(tmp_path, seed, KILLS_LONG, monkeypatch)
