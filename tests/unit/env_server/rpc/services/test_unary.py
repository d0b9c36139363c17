"""The unary verbs, over a real connection."""

import asyncio
from typing import Any

import grpc
import pytest
from env_api.v1 import environment_service_pb2 as pb
from env_api.v1 import operations_pb2
from google.rpc import error_details_pb2, status_pb2

from env_server.model.entries import VALUE, Entry
from env_server.model.limits import Limits
from env_server.model.operations import Code
from env_server.rpc.services.unary import VERBS
from tests.unit.env_server.rpc.fakes import FakeWorld, Served, serve, wait_until


async def call(served: Served, verb: str, request: Any, timeout_s: float | None = None) -> Any:
    """Calls an rpc; a request of bytes is sent as it is."""
    raw = request if isinstance(request, bytes) else request.SerializeToString()
    method = served.channel.unary_unary(f"/env_api.v1.EnvironmentService/{verb}")
    return VERBS[verb].response.FromString(await method(raw, timeout=timeout_s))


async def fail(served: Served, verb: str, request: Any) -> tuple[grpc.StatusCode, str, error_details_pb2.ErrorInfo]:
    """Code, message and error info of a call that must fail."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call(served, verb, request)
    trailers = dict(caught.value.trailing_metadata() or ())
    status = status_pb2.Status.FromString(trailers["grpc-status-details-bin"])  # type: ignore[arg-type]
    info = error_details_pb2.ErrorInfo()
    assert status.details[0].Unpack(info)
    return caught.value.code(), caught.value.details() or "", info


def update(value: int = 1, **fields: Any) -> pb.UpdateRequest:
    return pb.UpdateRequest(path="/a", key="k", update={"set": {"int_value": value}}, **fields)


async def test_a_write_says_what_it_did() -> None:
    async with serve() as served:
        response = await call(served, "Update", update())
        assert (response.header.world, response.header.history, response.header.revision) == ("main", "h1", 1)
        assert (response.written.revision, response.written.version, response.written.changed) == (1, 1, True)
        response = await call(served, "Update", update())
        assert (response.written.revision, response.written.version) == (2, 2)


async def test_a_read_sees_it() -> None:
    async with serve() as served:
        await call(served, "Update", update(7))
        response = await call(served, "Query", pb.QueryRequest(path="/a", key="k", query={"get": {}}))
        assert response.result.entry.value.int_value == 7
        code, _, info = await fail(served, "Query", pb.QueryRequest(path="/a", key="x", query={"get": {}}))
        assert (code, info.reason) == (grpc.StatusCode.NOT_FOUND, "ENTRY_NOT_FOUND")
        assert info.metadata["key"] == "x"


async def test_an_operation_that_waits_is_answered_when_it_returns() -> None:
    async with serve() as served:
        request = pb.InvokeRequest(path="/a", invoke={"operation": "wait"})
        waiting = asyncio.create_task(call(served, "Invoke", request), name="call")
        await wait_until(lambda: served.world.waiting)
        served.world.release()
        assert (await waiting).result.result_json == b'"done"'


async def test_a_cancelled_call_does_not_disturb_the_op() -> None:
    async with serve() as served:
        request = pb.InvokeRequest(path="/a", invoke={"operation": "wait"})
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call(served, "Invoke", request, timeout_s=0.05)
        assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        await asyncio.sleep(0.02)
        served.world.release()  # delivers to nobody
        assert (await call(served, "Update", update())).written.changed


async def test_a_transaction_needs_no_path() -> None:
    async with serve() as served:
        write = operations_pb2.Write(path="/a", key="k", update={"add_int": 1})
        response = await call(served, "Transact", pb.TransactRequest(transact={"writes": [write]}))
        assert len(response.result.written) == 1
        assert served.world.frames[0].codes == [Code.TRANSACT]


async def test_the_deadline_reaches_the_engine() -> None:
    async with serve() as served:
        await call(served, "Update", update())
        assert served.world.frames[-1].deadline_ns == 0
        before = served.world.clock.monotonic_ns()
        await call(served, "Update", update(), timeout_s=60)
        assert 50e9 < served.world.frames[-1].deadline_ns - before < 61e9


async def test_the_caller_is_read() -> None:
    async with serve() as served:
        caller = pb.Caller(producer="agent-1", producer_seq=5, actor="bob", cause="main/3.0")
        request = update(caller=caller, preconditions=[{"version": 0}])
        await call(served, "Update", request)
        frame = served.world.frames[-1]
        assert (frame.producers, frame.producer_seqs) == (["agent-1"], [5])
        assert (frame.actors, frame.causes, frame.client_id) == (["bob"], ["main/3.0"], "")
        assert frame.preconditions is not None
        assert len(frame.preconditions[0]) == 1


@pytest.mark.parametrize(
    ("caller", "reason"),
    [
        ({"producer": "p"}, "INVALID_FIELD"),
        ({"producer_seq": 1}, "INVALID_FIELD"),
        ({"producer": "a b", "producer_seq": 1}, "INVALID_FIELD"),
        ({"actor": "a b"}, "INVALID_FIELD"),
        ({"cause": "x" * 200}, "LIMIT_EXCEEDED"),
        ({"request_id": "u"}, "INVALID_FIELD"),
        ({"group": "g"}, "INVALID_PATH"),
    ],
)
async def test_a_caller_that_makes_no_sense_is_refused(caller: dict[str, Any], reason: str) -> None:
    async with serve() as served:
        assert (await fail(served, "Update", update(caller=caller)))[2].reason == reason
        assert served.world.frames == []


@pytest.mark.parametrize("verb", list(VERBS))
async def test_malformed_and_empty_requests_are_refused(verb: str) -> None:
    async with serve() as served:
        code, _, info = await fail(served, verb, b"\xff\xff")
        assert (code, info.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "MALFORMED_MESSAGE")
        code, _, info = await fail(served, verb, b"")
        assert (code, info.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD")
        assert served.world.frames == []


async def test_another_world_is_not_found_and_a_draining_server_unavailable() -> None:
    async with serve() as served:
        code, _, info = await fail(served, "Update", update(world="nowhere"))
        assert (code, info.reason) == (grpc.StatusCode.NOT_FOUND, "WORLD_NOT_FOUND")
        served.worlds.draining = True
        code, _, info = await fail(served, "Update", update())
        assert (code, info.reason) == (grpc.StatusCode.UNAVAILABLE, "DRAINING")


async def test_a_defect_shows_an_incident_and_nothing_else() -> None:
    async with serve() as served:
        code, message, info = await fail(served, "Invoke", pb.InvokeRequest(path="/a", invoke={"operation": "break"}))
        assert (code, info.metadata["incident"]) == (grpc.StatusCode.INTERNAL, "incident-1")
        assert info.metadata["executed"] == "unknown"
        assert "secret" not in message


async def test_sizes_around_the_limits_leave_the_connection_alone() -> None:
    mib = 1024 * 1024
    async with serve() as served:
        for size, fits in ((mib, True), (mib + 1, False), (4 * mib - 1, False), (4 * mib, False), (8 * mib, False)):
            request = pb.UpdateRequest(path="/a", key="k", update={"set": {"bytes_value": b"x" * size}})
            if fits:
                assert (await call(served, "Update", request)).written.changed
            else:
                code, _, info = await fail(served, "Update", request)
                assert (code, info.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "LIMIT_EXCEEDED")
                assert info.metadata["limit"] in ("value_bytes_max", "frame_bytes_max")
        assert (await call(served, "Update", update())).written.changed


async def test_an_answer_that_fits_in_no_message_names_the_limit() -> None:
    world = FakeWorld(limits=Limits(message_bytes_max=1000))
    world.entries[("/a", "k")] = Entry("x" * 2000, 1, 1, 1, VALUE)
    async with serve(world) as served:
        _, _, info = await fail(served, "Query", pb.QueryRequest(path="/a", key="k", query={"get": {}}))
        assert (info.reason, info.metadata["limit"]) == ("LIMIT_EXCEEDED", "message_bytes_max")
