"""`ecumene serve`, `ecumene runtime` and `ecumene offline`: run a service in this process, found by entry point.

The command line never imports a service statically, so that the SDK can be installed alone.
A service's `main` takes its arguments as a list and returns an exit code (None is 0).
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Sequence

from ecumene.cli.commands import is_ours
from ecumene.cli.failures import CliError, missing_extra

SERVICE_GROUP = "ecumene.services"


def serve(arguments: Sequence[str]) -> int:
    """Start the environment server with its own arguments; returns when it has stopped."""
    return run_service("serve", "env-server", "server", arguments)


def runtime(arguments: Sequence[str]) -> int:
    """Start an agent runtime with its own arguments; returns when it has stopped."""
    return run_service("runtime", "runtime", "runtime", arguments)


def offline(arguments: Sequence[str]) -> int:
    """Run a tool of the environment server for stored worlds; returns its exit code."""
    return run_service("offline", "offline", "server", arguments)


def run_service(command_name: str, service: str, extra: str, arguments: Sequence[str]) -> int:
    """Load a service and run it.

    Raises CliError if it is not installed or a package of its extra is missing.
    """
    return int(load_service(command_name, service, extra)(list(arguments)) or 0)


def load_service(command_name: str, service: str, extra: str) -> Callable[[list[str]], int | None]:
    """The `main` of a service. Raises CliError if it is absent or lacks its extra."""
    entry_points = importlib.metadata.entry_points(group=SERVICE_GROUP, name=service)
    for entry_point in entry_points:
        try:
            main: Callable[[list[str]], int | None] = entry_point.load()
            return main
        except ModuleNotFoundError as error:
            if error.name == entry_point.module:
                break
            if is_ours(error.name):
                raise
            raise missing_extra(command_name, extra) from error
    raise CliError(f"ecumene {command_name} is not part of this version of Ecumene")
