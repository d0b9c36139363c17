"""Whatever a behaviour does wrong: its op fails, nothing else does, and the world starts again."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import grpc
from env_api.v1 import operations_pb2 as operations
from env_api.v1 import queries_pb2, session_pb2, values_pb2

from tests.faults.hostile_behaviour import CALLS
from tests.raw_client import Failure, RawSession, call
from tests.services import ServerProcess

WAIT_S = 5.0


async def check_alive(channel: grpc.aio.Channel, number: int) -> None:
    """The environment takes a write, and it and its parent can be read."""
    update = operations.Update(set=values_pb2.Value(int_value=number))
    written = await asyncio.wait_for(call(channel, "update", path="/evil", key="beside", update=update), WAIT_S)
    assert not isinstance(written, Failure), written
    for path in ("/", "/evil"):
        query = queries_pb2.Query(list_children=queries_pb2.ListChildren())
        listed = await asyncio.wait_for(call(channel, "query", path=path, query=query), WAIT_S)
        assert not isinstance(listed, Failure), listed


async def test_nothing_but_its_op_fails_by_a_hostile_behaviour(tmp_path: Path) -> None:
    behaviour = ("--behaviour", "tests.faults.hostile_behaviour:Hostile")
    with ServerProcess(tmp_path / "data", *behaviour) as server:
        async with grpc.aio.insecure_channel(server.address) as channel:
            gates = [values_pb2.Gate(name="g")]
            register = operations.Register(kind="hostile", gates=gates)
            await call(channel, "register", path="/evil", register=register)
            session = await RawSession(channel, "caller").open()
            for number, (name, arguments) in enumerate(CALLS):
                invoke = operations.Invoke(operation=name, args_json=json.dumps(arguments).encode())
                alone = await asyncio.wait_for(call(channel, "invoke", path="/evil", invoke=invoke), WAIT_S)
                assert isinstance(alone, Failure), (name, arguments)
                assert "secret" not in alone.message
                framed = await asyncio.wait_for(session.fail(session_pb2.Op(invoke=invoke), "/evil"), WAIT_S)
                assert framed is not None, (name, arguments)
                assert framed.reason == alone.reason
                await check_alive(channel, number)
            session.cancel()
        server.kill()
        server.start()
        async with grpc.aio.insecure_channel(server.address) as channel:
            await check_alive(channel, -1)


async def test_numbers_that_the_contract_cannot_tell_are_refused_by_the_game(tmp_path: Path) -> None:
    """open_round takes any integer; a gate does not."""
    with ServerProcess(tmp_path / "data") as server:
        async with grpc.aio.insecure_channel(server.address) as channel:
            await call(channel, "register", path="/evil", register=operations.Register(kind="guess_game"))
            for name in ("participants", "deadline_ms"):
                for number in (2**64, 10**400, -1):
                    arguments = json.dumps({name: number}).encode()
                    invoke = operations.Invoke(operation="open_round", args_json=arguments)
                    failed = await call(channel, "invoke", path="/evil", invoke=invoke)
                    assert isinstance(failed, Failure), (name, number)
                    assert failed.reason in ("INVALID_FIELD", "OPERATION_REFUSED")
                    await check_alive(channel, 1)
