"""Bad input, unary and in frames: the right code and reason, the stream survives, nothing is lost or changed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import ecumene
import grpc
import pytest
from ecumene.client import EventType, RevisionCompactedError
from env_api.v1 import errors_pb2, session_pb2
from env_api.v1 import operations_pb2 as ops
from env_api.v1 import values_pb2 as values

from tests.promises.bad_names import NAMES
from tests.promises.bad_requests import ALL, MIB, Bad, environment, put, transact, write
from tests.raw_client import Failure, RawSession, call, call_with_bytes, decode_error
from tests.services import ServerProcess

FRAME_MAX = 4 * MIB
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
            ops.Query(get=ops.Get()),
            ops.Query(list_entries=ops.ListEntries()),
            ops.Query(list_children=ops.ListChildren()),
            ops.Query(aggregates=ops.ReadAggregates()),
        ):
            response = await call(channel, "query", path=path, query=ask)
            seen.append((response.header.revision, response.result.SerializeToString(deterministic=True)))
    return seen


@pytest.mark.parametrize("bad", [*NAMES, *ALL], ids=lambda bad: bad.name.replace(" ", "-"))
async def test_a_bad_request_fails_alike_in_a_call_and_in_a_frame(
    channel: grpc.aio.Channel, session: RawSession, bad: Bad
) -> None:
    before = await call(channel, "query", path="/town", key="v", query=ops.Query(get=ops.Get()))
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
    after = await call(channel, "query", path="/town", key="v", query=ops.Query(get=ops.Get()))
    assert after.result == before.result
    assert after.header.revision == before.header.revision


def get_v() -> session_pb2.Op:
    return session_pb2.Op(path=1, key="v", query=ops.Query(get=ops.Get()))


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
    assert (await session.do(session_pb2.Op(key="v", query=ops.Query(get=ops.Get())), path="/town"))[0]


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
    assert (await session.do(session_pb2.Op(query=ops.Query(get=ops.Get()))))[0].query.environment.path == "/"
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


# ---- sizes: limit - 1, limit, limit + 1 ----


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
            ask = ops.Query(list_entries=ops.ListEntries(page_token=token))
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
        ask = ops.Query(stream=ops.ReadStream(from_sequence=len(items) + 1))
        stream = (await call(channel, "query", path="/large", key="s", query=ask)).result.stream
        items += [item.sequence for item in stream.items]
    assert items == [1, 2, 3, 4, 5, 6]
    gets = [session_pb2.Op(key=f"k{number}", query=ops.Query(get=ops.Get())) for number in range(6)]
    outcomes = await session.do(*gets, path="/large")
    assert [len(outcome.query.entry.value.bytes_value) for outcome in outcomes] == [MIB] * 6


def op_value() -> values.Value:
    return values.Value(string_value="y" * MIB)


# ---- waiting, draining, compaction: servers of their own ----


async def test_a_full_queue_refuses_with_advice_and_a_deadline_takes_ops_out(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", *BEHAVIOURS, "--queue-ops-max", "2", "--drain-s", "0.2") as server:
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
            absent = await call(channel, "query", path="/busy", key="k", query=ops.Query(get=ops.Get()))
            assert absent.reason == "ENTRY_NOT_FOUND"
            session.cancel()
            waiting.cancel()
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
