"""Clients that ask for much and read nothing: what they cost is bounded, however many watches they hold."""

from __future__ import annotations

import asyncio
from pathlib import Path

import grpc
import psutil
from env_api.v1 import queries_pb2, session_pb2

from tests.raw_client import Failure, RawSession, call
from tests.services import ServerProcess

WATCHES = 300
VALUES = [str(number) + "x" * 1_000_000 for number in range(3)]
GROWTH_BYTES_MAX = 250 << 20


async def test_watches_of_a_session_that_reads_nothing_hold_no_frames(tmp_path: Path) -> None:
    """300 of them held 2.6 GB once: each had its frame encoded before it waited for room."""
    with ServerProcess(tmp_path / "data") as server:
        async with grpc.aio.insecure_channel(server.address) as channel:
            session = await RawSession(channel, "silent").open()
            block = session_pb2.SetBlock(keys=["a", "b", "c"], strings=VALUES)
            await session.send(session_pb2.OpFrame(paths=["/"], block=block))
            before = psutil.Process(server.pid).memory_info().rss
            for number in range(1, WATCHES + 1):
                watch = session_pb2.WatchStart(watch_id=number, credit_events=2**64 - 1, credit_bytes=2**64 - 1)
                watch.initial_state = bool(number % 2)
                watch.from_revision = 1 - number % 2
                watch.filter.key_glob = "[abc]" + "*" * (number % 7)
                await session.write(session_pb2.SessionRequest(watch=watch).SerializeToString())
            await asyncio.sleep(2)
            get = queries_pb2.Query(get=queries_pb2.Get())
            assert not isinstance(await call(channel, "query", path="/", query=get), Failure)
            assert psutil.Process(server.pid).memory_info().rss - before < GROWTH_BYTES_MAX
            synced = set()
            async with asyncio.timeout(60):  # when it reads after all, every watch gets everything
                while len(synced) < WATCHES:
                    events = (await session.read()).events
                    if events.through_revision >= 4:
                        synced.add(events.watch_id)
            session.cancel()
