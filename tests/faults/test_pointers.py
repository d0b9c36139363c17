"""Aggregates over fields: whatever the pointer, values go in, and the world starts again with equal numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grpc
from env_api.v1 import operations_pb2 as operations
from env_api.v1 import queries_pb2, values_pb2

from tests.raw_client import Failure, call
from tests.services import ServerProcess

POINTERS = {
    "/" + "9" * 5000: 0,
    "/" + "0" * 5000: 0,
    "/0": 1,
    "/1": 1,
    "/01": 0,
    "/-": 0,
    "/-1": 0,
    "/٣": 0,
    "/²": 0,
    "/1e0": 0,
    "/": 1,
    "/~0~1": 1,
    "/deep" * 64: 0,
}
"""How many numbers each finds in the values below."""
VALUES = [b"[1,2,3,4]", b'{"":5,"~/":6}', b"[]", b"null", b"7", b'["x",' + b"1" + b"0" * 400 + b"]"]


async def read(channel: grpc.aio.Channel) -> Any:
    query = queries_pb2.Query(aggregates=queries_pb2.ReadAggregates())
    answer = await call(channel, "query", path="/fields", query=query)
    assert not isinstance(answer, Failure), answer
    return answer.result


async def test_any_pointer_takes_any_value_and_survives_a_restart(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        async with grpc.aio.insecure_channel(server.address) as channel:
            aggregates = [
                values_pb2.Aggregate(name=f"a{number}", function=values_pb2.AGGREGATE_FUNCTION_MEAN, field=pointer)
                for number, pointer in enumerate(POINTERS)
            ]
            register = operations.Register(aggregates=aggregates)
            made = await call(channel, "register", path="/fields", register=register)
            assert not isinstance(made, Failure), made
            for number, value in enumerate(VALUES):
                update = operations.Update(set=values_pb2.Value(json_value=value))
                done = await call(channel, "update", path="/fields", key=f"k{number}", update=update)
                assert not isinstance(done, Failure), done
            before = await read(channel)
            assert [value.numbers for value in before.aggregates.values] == list(POINTERS.values())
        assert server.stop() == 0
        server.start()
        async with grpc.aio.insecure_channel(server.address) as channel:
            assert await read(channel) == before
