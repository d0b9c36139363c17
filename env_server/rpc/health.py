"""Health and reflection: the two services that tools ask for."""

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection


class Health:
    """grpc.health.v1 for the server as a whole ("") and for each of its services. Set it before the server starts."""

    def __init__(self, server: grpc.aio.Server, services: tuple[str, ...]) -> None:
        self._names = ("", *services)
        self._servicer = health.aio.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self._servicer, server)

    async def set_serving(self, serving: bool) -> None:
        """Tells whoever asks, and whoever watches."""
        status = health_pb2.HealthCheckResponse.SERVING if serving else health_pb2.HealthCheckResponse.NOT_SERVING
        for name in self._names:
            await self._servicer.set(name, status)


def add_reflection(server: grpc.aio.Server, services: tuple[str, ...]) -> None:
    """Lets tools list the services and read their descriptors."""
    names = (*services, health_pb2.DESCRIPTOR.services_by_name["Health"].full_name, reflection.SERVICE_NAME)
    reflection.enable_server_reflection(names, server)
