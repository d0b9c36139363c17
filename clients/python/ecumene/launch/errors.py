"""What can go wrong with a service in a process of its own."""

from __future__ import annotations

from ecumene.client.errors import EcumeneError


class LaunchError(EcumeneError):
    """A service could not be started, or ended by itself."""


class ServiceMissingError(LaunchError):
    """No such service is installed."""

    def __init__(self, service: str) -> None:
        self.service = service
        super().__init__(f"the service {service} is not part of this installation")


class ServiceStartError(LaunchError):
    """A service did not become ready; `last_line` is the last it wrote to stderr, `exit_code` with which it ended."""

    def __init__(self, service: str, problem: str, last_line: str, exit_code: int | None = None) -> None:
        self.service = service
        self.problem = problem
        self.exit_code = exit_code
        self.last_line = last_line
        super().__init__(f"{service} did not start ({problem})" + (f": {last_line}" if last_line else ""))


class ServiceEndedError(LaunchError):
    """A service that was needed is gone; `last_line` is the last it wrote to stderr."""

    def __init__(self, service: str, exit_code: int, last_line: str) -> None:
        self.service = service
        self.exit_code = exit_code
        self.last_line = last_line
        super().__init__(f"{service} ended with {describe_exit(exit_code)}" + (f": {last_line}" if last_line else ""))


class LaunchFileError(LaunchError):
    """A file of a launch description that cannot be read, or is none; the message says where."""

    exit_code = 2


class PlacementError(LaunchError):
    """The nodes that live cannot host the run."""


def describe_exit(exit_code: int) -> str:
    """An exit code in words; negative ones are signals."""
    return f"signal {-exit_code}" if exit_code < 0 else f"exit code {exit_code}"
