"""All services of the server, registered with a gRPC server.

Handlers get and return bytes: what a message cannot be parsed into is then an answer of ours, and event frames that
many watches share are encoded once.
"""

from __future__ import annotations  # grpc's handlers take type arguments in stubs alone

from collections.abc import Mapping
from typing import Any, Final

import grpc
from env_api.v1 import (
    admin_service_pb2,
    environment_service_pb2,
    lease_service_pb2,
    subscription_service_pb2,
    timeline_service_pb2,
    world_service_pb2,
)

from env_server.rpc.edge import NewIncident, draw_incident, guard
from env_server.rpc.health import Health, add_reflection
from env_server.rpc.services.admin_service import AdminService
from env_server.rpc.services.describe_kinds import serve_descriptions
from env_server.rpc.services.lease_service import LeaseService
from env_server.rpc.services.monitor import MonitorService
from env_server.rpc.services.subscription_service import SubscriptionService
from env_server.rpc.services.timeline_service import TimelineService
from env_server.rpc.services.unary import UnaryService
from env_server.rpc.services.world_service import WorldService
from env_server.rpc.session.session import SessionService
from env_server.rpc.streams import Streams
from env_server.worlds import Worlds

DESCRIPTORS: Final = (
    environment_service_pb2.DESCRIPTOR.services_by_name["EnvironmentService"],
    world_service_pb2.DESCRIPTOR.services_by_name["WorldService"],
    subscription_service_pb2.DESCRIPTOR.services_by_name["SubscriptionService"],
    lease_service_pb2.DESCRIPTOR.services_by_name["LeaseService"],
    admin_service_pb2.DESCRIPTOR.services_by_name["AdminService"],
    timeline_service_pb2.DESCRIPTOR.services_by_name["TimelineService"],
)
SERVICES: Final[tuple[str, ...]] = tuple(descriptor.full_name for descriptor in DESCRIPTORS)


class Service:
    """What was registered, and how it stops."""

    def __init__(self, health: Health, streams: Streams) -> None:
        self._health = health
        self.streams = streams

    async def begin(self) -> None:
        """Call right before the server starts: whoever reaches its port may use it."""
        await self._health.set_serving(True)

    async def drain(self, reason: str, grace_s: float) -> None:
        """Health flips first, then every stream is told to go away; returns when all have gone or were ended.

        Stop the gRPC server afterwards, with a grace of its own: a stream whose client reads nothing ends only then.
        """
        await self._health.set_serving(False)
        await self.streams.drain(reason, grace_s)


def build(server: grpc.aio.Server, worlds: Worlds, *, new_incident: NewIncident = draw_incident) -> Service:
    """Registers every service with a server made with SERVER_OPTIONS and not yet started. Call it in the loop."""
    streams = Streams(worlds.limits)
    for name, handlers in build_handlers(worlds, streams, new_incident).items():
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(name, handlers),))
    health = Health(server, SERVICES)
    add_reflection(server, SERVICES)
    return Service(health, streams)


def build_handlers(
    worlds: Worlds, streams: Streams, new_incident: NewIncident
) -> dict[str, dict[str, grpc.RpcMethodHandler[Any, Any]]]:
    """The handlers of each service, by its name and the rpc's."""

    def unary(handlers: Mapping[str, Any]) -> dict[str, grpc.RpcMethodHandler[Any, Any]]:
        return {
            name: grpc.unary_unary_rpc_method_handler(guard(handler, new_incident))
            for name, handler in handlers.items()
        }

    monitor = MonitorService(worlds, streams).serve
    session = SessionService(worlds, streams, new_incident).serve
    descriptions = {"DescribeKind": serve_descriptions(lambda kind: worlds.describe_kinds(kind))}
    environments = unary(UnaryService(worlds).handlers() | descriptions)
    environments["Monitor"] = grpc.unary_stream_rpc_method_handler(guard(monitor, new_incident))
    environments["Session"] = grpc.stream_stream_rpc_method_handler(guard(session, new_incident))
    subscribing = SubscriptionService(worlds, streams)
    subscriptions = unary(subscribing.handlers())
    subscriptions["Consume"] = grpc.unary_stream_rpc_method_handler(guard(subscribing.consume, new_incident))
    return {
        SERVICES[0]: environments,
        SERVICES[1]: unary(WorldService(worlds, streams).handlers()),
        SERVICES[2]: subscriptions,
        SERVICES[3]: unary(LeaseService(worlds).handlers()),
        SERVICES[4]: unary(AdminService(worlds).handlers()),
        SERVICES[5]: unary(TimelineService(worlds, streams).handlers()),
    }
