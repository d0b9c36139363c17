"""Starts services as subprocesses, found by entry point; never imports one.

    async with Services() as services:
        server = await services.start("env-server", ["--data-dir", "data", "--port", "0"])
        ...server.ready["address"]...

Leaving the block stops what was started, last first. If this process dies in any way, even by SIGKILL, its
services notice within a moment and stop by themselves.
"""

from ecumene.launch.errors import LaunchError, PlacementError, ServiceEndedError, ServiceMissingError, ServiceStartError
from ecumene.launch.process import ServiceProcess, start_service
from ecumene.launch.services import Services

__all__ = [
    "LaunchError",
    "PlacementError",
    "ServiceEndedError",
    "ServiceMissingError",
    "ServiceProcess",
    "ServiceStartError",
    "Services",
    "start_service",
]
