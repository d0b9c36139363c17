"""What a server refuses as it is now: a full queue, a drain, a compacted revision. Each has a server of its own."""

from __future__ import annotations

import asyncio
from pathlib import Path

import ecumene
import grpc
import pytest
from ecumene.client import EventType, RevisionCompactedError
from env_api.v1 import errors_pb2, queries_pb2, session_pb2
from env_api.v1 import operations_pb2 as ops

from tests.promises.bad_request import put
from tests.raw_client import RawSession, call, decode_error
from tests.services import ServerProcess


async def test_a_full_queue_refuses_with_advice_and_a_deadline_takes_ops_out(tmp_path: Path) -> None:
    narrow = ("--behaviour", "tests.promises.tally:Blocker", "--queue-ops-max", "2", "--drain-s", "0.2")
    with ServerProcess(tmp_path / "data", *narrow) as server:
        async with grpc.aio.insecure_channel(server.address) as channel:
            session = await RawSession(channel, "one").open()
            await session.do(session_pb2.Op(register=ops.Register(kind="blocker")), path="/busy")
            hold = ops.Invoke(operation="hold", args_json=b'{"key":"k","seconds":25}')
            await session.write(
                session_pb2.SessionRequest(
                    frame=session_pb2.OpFrame(seq=2, paths=["/busy"], ops=[session_pb2.Op(invoke=hold)])
                ).SerializeToString()
            )
            assert (await session.read()).answer.pending == [0]
            waiting = await RawSession(channel, "two").open()
            writes = [session_pb2.Op(key="k", set_int=number) for number in range(3)]
            late = session_pb2.OpFrame(paths=["/busy"], ops=writes, deadline_ms=500)
            parts = await waiting.send(late)
            errors = {outcome.index: outcome.error for part in parts for outcome in part.outcomes}
            assert decode_error(errors[2]).reason == "QUEUE_FULL"
            assert errors[2].retry_delay_ms > 0
            for index in (0, 1):
                assert decode_error(errors[index]).reason == "DEADLINE"
                assert errors[index].executed == errors_pb2.EXECUTED_NO
            recursive = await call(channel, "delete", path="/busy", delete=ops.Delete(recursive=True))
            assert (recursive.reason, recursive.retry_delay_ms > 0) == ("KEYS_HELD", True)
            absent = await call(channel, "query", path="/busy", key="k", query=queries_pb2.Query(get=queries_pb2.Get()))
            assert absent.reason == "ENTRY_NOT_FOUND"
            session.cancel()
            waiting.cancel()
        assert server.stop() == 0


async def test_blocks_that_meet_a_full_queue_are_done_in_the_end_and_in_order(tmp_path: Path) -> None:
    narrow = ("--behaviour", "tests.promises.tally:Blocker", "--queue-ops-max", "2")
    with ServerProcess(tmp_path / "data", *narrow) as server:
        async with ecumene.connect(server.address, settings=ecumene.ClientSettings(refusals_max=100)) as world:
            busy = world.environment("/busy")
            await busy.register(kind="blocker")
            hold = asyncio.create_task(busy.invoke("hold", key="k", seconds=0.5), name="hold")
            await asyncio.sleep(0)  # it is issued
            sent = await busy.set_many(["k"] * 6, range(6))
            assert (sent.ok_count, sent.failures) == (6, ())
            told = await busy.read_past("k")
            assert [change.value for change in told.values] == ["held", *range(6)]
            await hold
        assert server.stop() == 0


async def test_a_draining_server_says_so(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", "--drain-s", "3") as server:
        async with grpc.aio.insecure_channel(server.address) as channel:
            session = await RawSession(channel, "one").open()
            await session.do(session_pb2.Op(key="before", set_int=1))
            server.terminate()
            response = await session.read()
            assert response.WhichOneof("response") == "go_away"
            failure = await call(channel, "update", path="/", key="v", update=put(int_value=1))
            assert (failure.code, failure.reason) == (grpc.StatusCode.UNAVAILABLE.value[0], "DRAINING")
            assert failure.retry_delay_ms > 0
            assert (await session.do(session_pb2.Op(key="meanwhile", set_int=1)))[0] is None
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await session.read()
            assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        assert server.wait() == 0
        server.start()
        async with ecumene.connect(server.address) as world:
            assert await world.environment("/").value("meanwhile") == 1


async def test_a_compacted_revision_is_refused_with_what_is_retained(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", "--log-mib", "1") as server:
        async with ecumene.connect(server.address) as world:
            for number in range(4):
                await world.environment("/").set(f"k{number}", b"x" * 900_000)
        assert server.stop() == 0
        server.start()
        async with ecumene.connect(server.address) as world:
            root = world.environment("/")
            last = (await root.set("last", 1)).revision
            last = (await root.set("last", 2)).revision
            with pytest.raises(RevisionCompactedError) as caught:
                await anext(world.watch_frames(from_revision=1))
            retained = int(caught.value.metadata["compacted"])
            assert 1 < retained <= last
            watch = world.watch(from_revision=retained)
            event = await anext(watch)
            assert event.revision == retained
            await watch.aclose()
            state = world.watch(initial_state=True)
            keys = [event.key async for event in state.initial_state() if event.type is EventType.INITIAL]
            assert sorted(keys) == ["k0", "k1", "k2", "k3", "last"]
            await state.aclose()
