"""Every rpc of the contract is served, and the server can be asked, and stopped."""

import asyncio

import grpc
import pytest
from env_api.v1 import environment_service_pb2, session_pb2
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

from env_server.model.limits import Limits
from env_server.rpc.service import DESCRIPTORS, build_handlers
from env_server.rpc.streams import Streams
from tests.unit.env_server.rpc.fakes import FakeWorlds, serve, wait_until


async def test_every_rpc_of_every_service_has_a_handler_of_its_kind() -> None:
    handlers = build_handlers(FakeWorlds(), Streams(Limits()), lambda: "")  # type: ignore[arg-type]
    assert set(handlers) == {descriptor.full_name for descriptor in DESCRIPTORS}
    for descriptor in DESCRIPTORS:
        methods = {method.name: method for method in descriptor.methods}
        assert set(handlers[descriptor.full_name]) == set(methods)
        for name, handler in handlers[descriptor.full_name].items():
            assert handler.request_streaming == methods[name].client_streaming
            assert handler.response_streaming == methods[name].server_streaming


async def ask_health(channel: grpc.aio.Channel, service: str) -> int:
    check = channel.unary_unary("/grpc.health.v1.Health/Check")
    request = health_pb2.HealthCheckRequest(service=service)
    return health_pb2.HealthCheckResponse.FromString(await check(request.SerializeToString())).status


async def test_health_flips_before_streams_are_told() -> None:
    async with serve() as served:
        for name in ("", "env_api.v1.EnvironmentService", "env_api.v1.WorldService"):
            assert await ask_health(served.channel, name) == health_pb2.HealthCheckResponse.SERVING
        await served.service.drain("stopping", 0.1)
        for name in ("", "env_api.v1.EnvironmentService"):
            assert await ask_health(served.channel, name) == health_pb2.HealthCheckResponse.NOT_SERVING


async def test_reflection_lists_the_services() -> None:
    async with serve() as served:
        method = served.channel.stream_stream("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo")
        stream = method()
        await stream.write(reflection_pb2.ServerReflectionRequest(list_services="").SerializeToString())
        response = reflection_pb2.ServerReflectionResponse.FromString(await stream.read())
        names = {service.name for service in response.list_services_response.service}
        assert {"env_api.v1.EnvironmentService", "env_api.v1.WorldService", "grpc.health.v1.Health"} <= names
        await stream.done_writing()
        assert await stream.code() is grpc.StatusCode.OK


async def test_a_drain_lets_clients_leave_and_ends_the_endless_ones() -> None:
    async with serve() as served:
        session = served.channel.stream_stream("/env_api.v1.EnvironmentService/Session")()
        hello = session_pb2.SessionRequest(hello=session_pb2.Hello(client_id="c"))
        await session.write(hello.SerializeToString())
        await session.read()
        monitor = served.channel.unary_stream("/env_api.v1.EnvironmentService/Monitor")(
            environment_service_pb2.MonitorRequest().SerializeToString()
        )
        await wait_until(lambda: len(served.service.streams) == 2)
        drain = asyncio.create_task(served.service.drain("maintenance", 0.2), name="drain")
        told = session_pb2.SessionResponse.FromString(await session.read())
        assert told.go_away.reason == "maintenance"
        with pytest.raises(grpc.aio.AioRpcError):
            await monitor.read()
        assert await monitor.code() is grpc.StatusCode.UNAVAILABLE
        await drain
        assert await session.code() is grpc.StatusCode.UNAVAILABLE
        await asyncio.sleep(0.01)
        assert len(served.service.streams) == 0


async def test_a_second_server_cannot_share_the_port() -> None:
    from env_server.rpc.options import SERVER_OPTIONS

    first = grpc.aio.server(options=SERVER_OPTIONS)
    port = first.add_insecure_port("127.0.0.1:0")
    await first.start()
    try:
        with pytest.raises(RuntimeError):
            grpc.aio.server(options=SERVER_OPTIONS).add_insecure_port(f"127.0.0.1:{port}")
    finally:
        await first.stop(0)
