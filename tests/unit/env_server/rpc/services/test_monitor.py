"""Monitor over a real connection."""

from typing import Any

import grpc
import pytest
from env_api.v1 import environment_service_pb2 as pb

from env_server.model.errors import InvalidRequest, OutOfRange, Reason
from env_server.model.limits import Limits
from env_server.model.watching import Delivery
from tests.unit.env_server.rpc.fakes import FakeWorld, Served, make_changes, serve, wait_until


def start(served: Served, **fields: Any) -> Any:
    method = served.channel.unary_stream("/env_api.v1.EnvironmentService/Monitor")
    return method(pb.MonitorRequest(**fields).SerializeToString())


async def read(call: Any) -> pb.MonitorResponse:
    return pb.MonitorResponse.FromString(await call.read())


async def wait_for_watch(served: Served) -> Any:
    await wait_until(lambda: served.world.watches.opened)
    return served.world.watches.opened[0]


async def test_events_come_as_rows_and_the_watch_is_closed_in_the_end() -> None:
    async with serve() as served:
        call = start(served, from_revision=3)
        watch = await wait_for_watch(served)
        assert watch.spec.from_revision == 3
        watch.steps.put_nowait(Delivery(make_changes(3), None, 3))
        watch.steps.put_nowait(Delivery(make_changes(3, base=3), [1], 6))
        first, second = await read(call), await read(call)
        assert [event.id for event in first.events] == ["main/1.0", "main/2.0", "main/3.0"]
        assert (first.header.world, first.through_revision) == ("main", 3)
        assert [event.revision for event in second.events] == [5]
        call.cancel()
        await wait_until(lambda: watch.closed and not len(served.service.streams))


async def test_an_idle_stream_gives_marks() -> None:
    async with serve(FakeWorld(limits=Limits(heartbeat_ms=20))) as served:
        call = start(served)
        watch = await wait_for_watch(served)
        assert (await read(call)).through_revision == 0
        watch.marked = 12
        marks = [(await read(call)).through_revision for _ in range(3)]
        assert marks[-1] == 12
        call.cancel()


async def test_a_watch_that_ends_ends_the_stream_with_its_error() -> None:
    async with serve() as served:
        call = start(served)
        watch = await wait_for_watch(served)
        watch.steps.put_nowait(OutOfRange(Reason.REVISION_COMPACTED, "gone", metadata={"first": "9"}))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call.read()
        assert caught.value.code() is grpc.StatusCode.OUT_OF_RANGE
        assert watch.closed


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"world": "nowhere"}, grpc.StatusCode.NOT_FOUND),
        ({"history": "other"}, grpc.StatusCode.FAILED_PRECONDITION),
        ({"filter": {"path_prefix": "x"}}, grpc.StatusCode.INVALID_ARGUMENT),
        ({"group": "g"}, grpc.StatusCode.INVALID_ARGUMENT),
    ],
)
async def test_what_cannot_begin_says_why(fields: dict[str, Any], code: grpc.StatusCode) -> None:
    async with serve() as served:
        call = start(served, **fields)
        assert await call.code() is code
        assert len(served.service.streams) == 0


async def test_a_filter_that_the_hub_refuses_says_why() -> None:
    async with serve() as served:
        served.world.watches.refusal = InvalidRequest(Reason.INVALID_FIELD, "key_glob", "is bad")
        assert await start(served).code() is grpc.StatusCode.INVALID_ARGUMENT
