"""Which services are installed: entry points of one group, whose target takes arguments and returns an exit code."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable
from typing import cast

SERVICE_GROUP = "ecumene.services"


def check_service(service: str) -> None:
    """Make sure that a service is installed, without importing it.

    Raises ServiceMissingError.
    """
    if not importlib.metadata.entry_points(group=SERVICE_GROUP, name=service):
        raise _miss(service)


def load_service(service: str) -> Callable[[list[str]], int | None]:
    """Import a service's `main`. Raises ServiceMissingError."""
    for entry_point in importlib.metadata.entry_points(group=SERVICE_GROUP, name=service):
        return cast("Callable[[list[str]], int | None]", entry_point.load())
    raise _miss(service)


def _miss(service: str) -> Exception:
    from ecumene.launch.errors import ServiceMissingError  # with all of the client, which a service may not need

    return ServiceMissingError(service)
