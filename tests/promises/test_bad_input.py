"""Bad input, unary and in frames: the right code and reason, the stream survives, nothing is lost or changed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import grpc
import pytest
from env_api.v1 import errors_pb2, queries_pb2, session_pb2
from env_api.v1 import operations_pb2 as ops
from env_api.v1 import values_pb2 as values

from tests.promises.bad_names import NAMES
from tests.promises.bad_request import Bad, environment
from tests.promises.bad_requests import ALL
from tests.raw_client import Failure, RawSession, call, call_with_bytes, decode_error
from tests.services import ServerProcess

BEHAVIOURS = ("--behaviour", "tests.promises.tally:Blocker")
SECRETS = ("Traceback", "secret of the server", ".py", "env_server", "File ")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One server for the whole table, with a bit of everything on it."""
    with ServerProcess(tmp_path_factory.mktemp("bad") / "data", *BEHAVIOURS) as server:
        asyncio.run(furnish(server))
        yield server


async def furnish(server: ServerProcess) -> None:
    async with grpc.aio.insecure_channel(server.address) as channel:
        session = await RawSession(channel, "furnisher").open()
        for path, register in [
            ("/town", ops.Register()),
            ("/town/child", ops.Register()),
            ("/busy", ops.Register(kind="blocker")),
            ("/gated", ops.Register(gates=[values.Gate(name="g", count_target=1)])),
        ]:
            assert await session.fail(session_pb2.Op(register=register), path) is None
        begin = session_pb2.Op(update=environment(begin_generation=ops.GateBegin(gate="g")))
        assert await session.fail(begin, "/gated") is None
        assert await session.fail(session_pb2.Op(key="r", set_int=1), "/gated") is None
        for op in (
            session_pb2.Op(key="v", set_int=1),
            session_pb2.Op(key="c", add_int=5),
            session_pb2.Op(key="s", update=ops.Update(append=values.Value(int_value=1))),
        ):
            assert await session.fail(op, "/town") is None
        session.cancel()


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


def check_failure(failure: Any, bad: Bad) -> None:
    assert isinstance(failure, Failure), f"it did not fail: {failure}"
    assert (failure.code, failure.reason) == (bad.code.value[0], bad.reason), failure
    for name, value in bad.metadata.items():
        assert name in failure.metadata, failure
        assert value is None or failure.metadata[name] == value, failure
    if bad.code is grpc.StatusCode.INVALID_ARGUMENT:
        assert failure.fields, failure
    assert failure.details_bytes <= 2048
    told = f"{failure.message} {failure.metadata}"
    assert not any(secret in told for secret in SECRETS), told


async def state_of(channel: grpc.aio.Channel) -> list[Any]:
    """Everything that could have been changed."""
    seen = []
    for path in ("/", "/town", "/gated", "/busy"):
        for ask in (
            queries_pb2.Query(get=queries_pb2.Get()),
            queries_pb2.Query(list_entries=queries_pb2.ListEntries()),
            queries_pb2.Query(list_children=queries_pb2.ListChildren()),
            queries_pb2.Query(aggregates=queries_pb2.ReadAggregates()),
        ):
            response = await call(channel, "query", path=path, query=ask)
            seen.append((response.header.revision, response.result.SerializeToString(deterministic=True)))
    return seen


@pytest.mark.parametrize("bad", [*NAMES, *ALL], ids=lambda bad: bad.name.replace(" ", "-"))
async def test_a_bad_request_fails_alike_in_a_call_and_in_a_frame(
    channel: grpc.aio.Channel, session: RawSession, bad: Bad
) -> None:
    before = await call(channel, "query", path="/town", key="v", query=queries_pb2.Query(get=queries_pb2.Get()))
    fields: dict[str, Any] = {bad.verb: bad.message}
    if bad.verb != "transact":
        fields["path"] = bad.path
    if bad.verb not in ("transact", "invoke"):
        fields["key"] = bad.key
    if bad.preconditions:
        fields["preconditions"] = bad.preconditions
    check_failure(await call(channel, bad.verb, **fields), bad)

    op = session_pb2.Op(key=bad.key, preconditions=bad.preconditions, **{bad.verb: bad.message})
    path = "/" if bad.verb == "transact" else bad.path
    answer = await session.send(session_pb2.OpFrame(paths=[path, "/town"], ops=[get_v(), op, get_v()]))
    outcomes = {outcome.index: outcome for part in answer for outcome in part.outcomes}
    check_failure(decode_error(outcomes[1].error), bad)
    for index in (0, 2):
        assert outcomes[index].query.entry.value.int_value == 1
    after = await call(channel, "query", path="/town", key="v", query=queries_pb2.Query(get=queries_pb2.Get()))
    assert after.result == before.result
    assert after.header.revision == before.header.revision


def get_v() -> session_pb2.Op:
    return session_pb2.Op(path=1, key="v", query=queries_pb2.Query(get=queries_pb2.Get()))


async def test_the_whole_table_in_one_frame_changes_nothing(channel: grpc.aio.Channel, session: RawSession) -> None:
    before = await state_of(channel)
    rows = [bad for bad in (*NAMES, *ALL) if bad.message.ByteSize() < 10_000 and not bad.message.ByteSize() > 10_000]
    paths = ["/" if bad.verb == "transact" else bad.path for bad in rows]
    answer = await session.send(
        session_pb2.OpFrame(
            paths=paths,
            ops=[
                session_pb2.Op(path=index, key=bad.key, preconditions=bad.preconditions, **{bad.verb: bad.message})  # type: ignore[arg-type]
                for index, bad in enumerate(rows)
            ],
        )
    )
    outcomes = {outcome.index: outcome for part in answer for outcome in part.outcomes}
    for index, bad in enumerate(rows):
        check_failure(decode_error(outcomes[index].error), bad)
    assert await state_of(channel) == before


# ---- frames as a whole ----


def frame(count: int = 1, **fields: Any) -> session_pb2.OpFrame:
    fields.setdefault("paths", ["/town"])
    return session_pb2.OpFrame(ops=[session_pb2.Op(key="v", set_int=9)] * count, **fields)


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (frame(4097), "LIMIT_EXCEEDED"),
        (frame(3, producers=["a", "b"], producer_seqs=[1, 2]), "INVALID_FIELD"),
        (frame(3, producers=["a"]), "INVALID_FIELD"),
        (frame(3, producer_seqs=[1]), "INVALID_FIELD"),
        (frame(2, gate_generations=[1, 2, 3]), "INVALID_FIELD"),
        (frame(2, actors=["a", "b", "c"]), "INVALID_FIELD"),
        (frame(1, deadline_ms=-1), "INVALID_FIELD"),
        (frame(2, groups=[1, 1, 1]), "INVALID_FIELD"),
        (session_pb2.OpFrame(paths=["/town"], block=session_pb2.SetBlock(keys=["v"], ints=[1, 2])), "INVALID_FIELD"),
        (session_pb2.OpFrame(paths=["/town"], block=session_pb2.SetBlock(keys=["v"], ints=[1], doubles=[1])),
         "INVALID_FIELD"),
        (session_pb2.OpFrame(paths=["/town"], block=session_pb2.SetBlock(keys=["v"], strings=["x"], add=True)),
         "INVALID_FIELD"),
    ],
)  # fmt: skip
async def test_a_frame_that_cannot_be_read_is_refused_as_a_whole(
    channel: grpc.aio.Channel, session: RawSession, bad: session_pb2.OpFrame, reason: str
) -> None:
    before = await state_of(channel)
    parts = await session.send(bad)
    refusal = parts[0].outcomes[0]
    assert refusal.index == parts[0].count
    assert decode_error(refusal.error).reason == reason
    assert refusal.error.executed == errors_pb2.EXECUTED_NO
    assert await state_of(channel) == before
    assert (await session.do(session_pb2.Op(key="v", query=queries_pb2.Query(get=queries_pb2.Get())), path="/town"))[0]


@pytest.mark.parametrize(
    ("op", "fields", "reason"),
    [
        (session_pb2.Op(path=5, key="v", set_int=1), {}, "INVALID_FIELD"),
        (session_pb2.Op(key="v"), {}, "INVALID_FIELD"),
        (session_pb2.Op(key="v", set_double=float("inf")), {}, "INVALID_VALUE"),
        (session_pb2.Op(key="v", set_json=b"{"), {}, "INVALID_VALUE"),
        (session_pb2.Op(key="v", set_null=False), {}, "INVALID_FIELD"),
        (session_pb2.Op(key="v", set_int=1), {"producers": ["bad name"], "producer_seqs": [1]}, "INVALID_FIELD"),
        (session_pb2.Op(key="v", set_int=1), {"producers": ["x" * 65], "producer_seqs": [1]}, "INVALID_FIELD"),
        (session_pb2.Op(key="v", set_int=1), {"producers": ["p"], "producer_seqs": [0]}, "INVALID_FIELD"),
        (session_pb2.Op(key="v", set_int=1), {"actors": ["who?"]}, "INVALID_FIELD"),
        (session_pb2.Op(key="v", set_int=1), {"causes": ["x" * 129]}, "LIMIT_EXCEEDED"),
        (session_pb2.Op(key="v", set_int=1), {"gate_generations": [3]}, "GATE_CLOSED"),
        (session_pb2.Op(key="v", set_int=1), {"expect_versions": [3]}, "PRECONDITION_FAILED"),
    ],
)  # fmt: skip
async def test_what_is_wrong_with_one_op_fails_it_alone(
    channel: grpc.aio.Channel, session: RawSession, op: session_pb2.Op, fields: dict[str, Any], reason: str
) -> None:
    before = await state_of(channel)
    for _ in range(2):
        parts = await session.send(session_pb2.OpFrame(paths=["/town"], ops=[op], **fields))
        assert decode_error(parts[0].outcomes[0].error).reason == reason
    assert await state_of(channel) == before


async def test_a_frame_number_of_zero_is_refused(session: RawSession) -> None:
    await session.write(session_pb2.SessionRequest(frame=frame()).SerializeToString())
    assert decode_error((await session.read_answer())[0].outcomes[0].error).reason == "INVALID_FIELD"


@pytest.mark.parametrize("data", [b"\xff\xff\xff", b"garbage" * 100, b"", b"\x12\x05\x0a", b"\x80" * 20])
async def test_malformed_bytes_are_refused_and_the_stream_goes_on(
    channel: grpc.aio.Channel, session: RawSession, data: bytes
) -> None:
    await session.write(data)
    response = await session.read()
    assert response.WhichOneof("response") == "error"
    assert decode_error(response.error).reason in ("MALFORMED_MESSAGE", "INVALID_FIELD")
    assert (await session.do(session_pb2.Op(query=queries_pb2.Query(get=queries_pb2.Get()))))[
        0
    ].query.environment.path == "/"
    for method in ("Update", "Query", "Register", "Delete", "Invoke", "Transact"):
        failure = await call_with_bytes(channel, method, data)
        assert isinstance(failure, Failure)
        assert failure.code == grpc.StatusCode.INVALID_ARGUMENT.value[0]


async def test_a_stream_that_does_not_begin_with_hello_ends_with_its_reason(channel: grpc.aio.Channel) -> None:
    session = RawSession(channel, "rude")
    await session.write(session_pb2.SessionRequest(frame=frame()).SerializeToString())
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await session.read()
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
