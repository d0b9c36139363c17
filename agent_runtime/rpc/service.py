"""RuntimeService, registered with a gRPC server, beside health and reflection."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import grpc
from agent_api.v1 import runtime_service_pb2
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from agent_runtime.model.errors import AgentRuntimeError
from agent_runtime.node.node import Node
from agent_runtime.rpc.asking_calls import AskingCalls
from agent_runtime.rpc.edge import guard
from agent_runtime.rpc.hosting_calls import HostingCalls
from agent_runtime.rpc.options import SERVER_OPTIONS
from agent_runtime.rpc.sitting import SittingCall

SERVICE: Final[str] = runtime_service_pb2.DESCRIPTOR.services_by_name["RuntimeService"].full_name
STOP_GRACE_S = 2.0
_SERVING = health_pb2.HealthCheckResponse.SERVING
_NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


class ListenError(AgentRuntimeError):
    """The node cannot listen where it should."""


@asynccontextmanager
async def serve(node: Node, host: str, port: int) -> AsyncIterator[str]:
    """Serve a node inside the context; gives the address. Health flips before the node is told to end.

    Raises:
        ListenError: nothing can listen there.
    """
    server = grpc.aio.server(options=SERVER_OPTIONS)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, build_handlers(node)),))
    checks = health.aio.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(checks, server)
    names = (SERVICE, health_pb2.DESCRIPTOR.services_by_name["Health"].full_name, reflection.SERVICE_NAME)
    reflection.enable_server_reflection(names, server)
    bound = bind(server, host, port)
    for name in ("", SERVICE):
        await checks.set(name, _SERVING)
    await server.start()
    try:
        yield f"[{host}]:{bound}" if ":" in host else f"{host}:{bound}"
    finally:
        for name in ("", SERVICE):
            await checks.set(name, _NOT_SERVING)
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.shield(server.stop(STOP_GRACE_S))


def build_handlers(node: Node) -> dict[str, grpc.RpcMethodHandler[Any, Any]]:
    """The handlers, by the rpc's name. They get and return bytes, so that what cannot be parsed is answered by us."""
    hosting, asking, sitting = HostingCalls(node), AskingCalls(node), SittingCall(node)
    unary = {
        "Stop": hosting.stop,
        "Drain": hosting.drain,
        "Inspect": hosting.inspect,
        "CleanUp": hosting.clean_up,
        "Interview": asking.interview,
        "SampleAgents": asking.sample_agents,
        "Intervene": asking.intervene,
    }
    handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
        name: grpc.unary_unary_rpc_method_handler(guard(handler)) for name, handler in unary.items()
    }
    handlers["Launch"] = grpc.stream_unary_rpc_method_handler(guard(hosting.launch))
    handlers["Logs"] = grpc.unary_stream_rpc_method_handler(guard(hosting.logs))
    handlers["Survey"] = grpc.unary_stream_rpc_method_handler(guard(asking.survey))
    handlers["Sit"] = grpc.stream_stream_rpc_method_handler(guard(sitting.sit))
    return handlers


def bind(server: grpc.aio.Server, host: str, port: int) -> int:
    """The port that the server listens on. Raises ListenError."""
    where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    why = "another program listens there; give another --listen"
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        # Tried by hand first: grpc would say on many lines, and not to us, what is wrong.
        with socket.socket(family, kind, protocol) as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind(address)
        if bound := server.add_insecure_port(where):
            return bound
    except OSError as error:
        why = str(error.strerror or error)
    except RuntimeError:
        pass  # somebody took the port since the trial
    raise ListenError(f"cannot listen on {where}: {why}")


def is_loopback(host: str) -> bool:
    """Whether only programs of this machine reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
