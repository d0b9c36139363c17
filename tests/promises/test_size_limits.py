"""Sizes of values, frames and transactions: limit - 1, limit, limit + 1; and pages that fit in messages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import grpc
import pytest
from env_api.v1 import operations_pb2 as ops
from env_api.v1 import queries_pb2, session_pb2
from env_api.v1 import values_pb2 as values

from tests.promises.bad_request import MIB, put, transact, write
from tests.raw_client import Failure, RawSession, call, decode_error
from tests.services import ServerProcess

FRAME_MAX = 4 * MIB


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One server for all sizes, with a place for transactions."""
    with ServerProcess(tmp_path_factory.mktemp("sizes") / "data") as server:
        asyncio.run(furnish(server))
        yield server


async def furnish(server: ServerProcess) -> None:
    async with grpc.aio.insecure_channel(server.address) as channel:
        await call(channel, "register", path="/town", register=ops.Register())


@pytest.fixture
async def channel(server: ServerProcess) -> AsyncIterator[grpc.aio.Channel]:
    """A connection without any options: as a foreign client makes it."""
    async with grpc.aio.insecure_channel(server.address) as channel:
        yield channel


@pytest.fixture
async def session(channel: grpc.aio.Channel, request: pytest.FixtureRequest) -> AsyncIterator[RawSession]:
    session = await RawSession(channel, f"s{abs(hash(request.node.nodeid))}").open()
    yield session
    session.cancel()


@pytest.mark.parametrize("over", [-1, 0, 1])
async def test_a_value_may_be_as_long_as_the_limit(session: RawSession, over: int) -> None:
    size = MIB + over
    for op in (
        session_pb2.Op(key="size", set_string="x" * size),
        session_pb2.Op(key="size", set_bytes=b"x" * size),
        session_pb2.Op(key="size", set_json=b'"' + b"x" * (size - 2) + b'"'),
        session_pb2.Op(key="size", update=put(bytes_value=b"x" * size)),
    ):
        failure = await session.fail(op, "/")
        assert (failure is None) == (over <= 0)
        assert failure is None or failure.metadata["limit"] == "value_bytes_max"
    await session.do(session_pb2.Op(key="size", delete=ops.Delete(if_present=True)))


@pytest.mark.parametrize("over", [-1, 0, 1])
async def test_a_frame_may_be_as_large_as_the_limit(session: RawSession, over: int) -> None:
    large = session_pb2.OpFrame(seq=1000 + over, paths=["/"])
    large.ops.extend(session_pb2.Op(key="big", set_bytes=b"x" * (MIB - 100)) for _ in range(4))
    large.ops.append(session_pb2.Op(key="big", set_bytes=b""))
    message = session_pb2.SessionRequest(frame=large)
    for _ in range(4):
        rest = FRAME_MAX + over - message.ByteSize()
        large.ops[-1].set_bytes = b"y" * (len(large.ops[-1].set_bytes) + rest)
        message = session_pb2.SessionRequest(frame=large)
    assert message.ByteSize() == FRAME_MAX + over
    await session.write(message.SerializeToString())
    parts = await session.read_answer()
    errors = [decode_error(outcome.error) for outcome in parts[0].outcomes]
    assert [error.metadata["limit"] for error in errors] == ([] if over <= 0 else ["frame_bytes_max"])
    await session.do(session_pb2.Op(key="big", delete=ops.Delete(if_present=True)))


@pytest.mark.parametrize(("count", "good"), [(4095, True), (4096, True), (4097, False)])
async def test_a_frame_may_have_as_many_ops_as_the_limit(session: RawSession, count: int, good: bool) -> None:
    ops_frame = session_pb2.OpFrame(paths=["/"], block=session_pb2.SetBlock(keys=["many"] * count, ints=range(count)))
    parts = await session.send(ops_frame)
    assert bool(parts[0].outcomes) is not good


@pytest.mark.parametrize("over", [-1, 0, 1])
async def test_a_transaction_may_be_as_large_as_the_limit(channel: grpc.aio.Channel, over: int) -> None:
    wanted = MIB + over
    asked = transact(write("t", update=put(bytes_value=b"x" * (MIB // 2))), write("t", update=put(bytes_value=b"y")))
    for _ in range(4):
        filling = asked.writes[1].update.set
        filling.bytes_value = b"y" * (len(filling.bytes_value) + wanted - asked.ByteSize())
    assert asked.ByteSize() == wanted
    response = await call(channel, "transact", transact=asked)
    assert isinstance(response, Failure) == (over > 0)
    await call(channel, "delete", path="/town", key="t", delete=ops.Delete(if_present=True))


async def test_pages_of_large_values_fit_in_messages(channel: grpc.aio.Channel, session: RawSession) -> None:
    assert await session.fail(session_pb2.Op(register=ops.Register()), "/large") is None
    for number in range(6):
        op = session_pb2.Op(key=f"k{number}", set_bytes=b"x" * MIB)
        assert await session.fail(op, "/large") is None
        assert await session.fail(session_pb2.Op(key="s", update=ops.Update(append=op_value())), "/large") is None
    for in_session in (False, True):
        keys, token = [], ""
        while True:
            ask = queries_pb2.Query(list_entries=queries_pb2.ListEntries(page_token=token))
            if in_session:
                page = (await session.do(session_pb2.Op(query=ask), path="/large"))[0].query.entries
            else:
                page = (await call(channel, "query", path="/large", query=ask)).result.entries
            keys += [entry.key for entry in page.entries]
            token = page.next_page_token
            if not token:
                break
        assert keys == [*[f"k{number}" for number in range(6)], "s"]
    items: list[int] = []
    while len(items) < 6:
        ask = queries_pb2.Query(stream=queries_pb2.ReadStream(from_sequence=len(items) + 1))
        stream = (await call(channel, "query", path="/large", key="s", query=ask)).result.stream
        items += [item.sequence for item in stream.items]
    assert items == [1, 2, 3, 4, 5, 6]
    gets = [session_pb2.Op(key=f"k{number}", query=queries_pb2.Query(get=queries_pb2.Get())) for number in range(6)]
    outcomes = await session.do(*gets, path="/large")
    assert [len(outcome.query.entry.value.bytes_value) for outcome in outcomes] == [MIB] * 6


def op_value() -> values.Value:
    return values.Value(string_value="y" * MIB)
