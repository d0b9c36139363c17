"""Starts services as subprocesses, found by entry point; never imports one.

    async with Services() as services:
        server = await services.start("env-server", ["--data-dir", "data", "--port", "0"])
        ...server.ready["address"]...

Leaving the block stops what was started, last first. If this process dies in any way, even by SIGKILL, its
services notice within a moment and stop by themselves.

All names are loaded when first touched: in the subprocess, a service that needs no client starts without one.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ecumene.launch.errors import (
        LaunchError,
        PlacementError,
        ServiceEndedError,
        ServiceMissingError,
        ServiceStartError,
    )
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


def __getattr__(name: str) -> Any:
    if name in __all__:
        for module in ("errors", "process", "services"):
            found = vars(importlib.import_module(f"ecumene.launch.{module}"))
            if name in found:
                return found[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
