"""Health: not serving until told so, for every service."""

import grpc
from grpc_health.v1 import health_pb2

from env_server.rpc.health import Health


async def test_a_server_is_not_serving_before_it_says_so() -> None:
    server = grpc.aio.server()
    health = Health(server, ("a.B",))
    port = server.add_insecure_port("127.0.0.1:0")
    await health.set_serving(False)
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        check = channel.unary_unary("/grpc.health.v1.Health/Check")

        async def ask(service: str) -> int:
            raw = await check(health_pb2.HealthCheckRequest(service=service).SerializeToString())
            return health_pb2.HealthCheckResponse.FromString(raw).status

        assert [await ask(name) for name in ("", "a.B")] == [health_pb2.HealthCheckResponse.NOT_SERVING] * 2
        await health.set_serving(True)
        assert [await ask(name) for name in ("", "a.B")] == [health_pb2.HealthCheckResponse.SERVING] * 2
    await server.stop(0)
