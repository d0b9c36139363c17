"""What a runtime's node refuses, as a caller sees it: a class for each reason of its contract.

    NotFoundError            RunNotFoundError · AgentNotFoundError · PartNotFoundError
    InvalidArgumentError     LaunchRefusedError
    AlreadyExistsError       RunExistsError · SeatTakenError
    WrongStateError          RunActiveError · TurnOverError
    ResourceExhaustedError   CapacityExceededError
    UnavailableError         WorkerUnavailableError · WorldUnavailableError
    AbortedError             WorldRefusedError

Reasons that the environment server has too (MALFORMED_MESSAGE, DRAINING and the like) have its classes.
"""

from __future__ import annotations

import grpc

from ecumene.client import errors, reasons
from ecumene.client.error_table import Row, from_rpc_error
from ecumene.client.errors import EcumeneError

_Code = grpc.StatusCode


class RunNotFoundError(errors.NotFoundError):
    """No such run is hosted on the node."""


class AgentNotFoundError(errors.NotFoundError):
    """No agent of that name lives on the node; it may live on another."""


class PartNotFoundError(errors.NotFoundError):
    """The run has no such part."""


class LaunchRefusedError(errors.InvalidArgumentError):
    """The launch description cannot be run there."""

    @property
    def where(self) -> str:
        """A place in it, such as groups.miners.agent."""
        return self.metadata.get("where", "")


class RunExistsError(errors.AlreadyExistsError):
    """A run of that name was launched with another description."""


class SeatTakenError(errors.AlreadyExistsError):
    """Somebody sits in the agent's place."""


class RunActiveError(errors.WrongStateError):
    """Parts of the run are still hosted."""


class TurnOverError(errors.WrongStateError):
    """The turn that was decided has ended."""


class CapacityExceededError(errors.ResourceExhaustedError):
    """More than the node hosts."""


class WorkerUnavailableError(errors.UnavailableError):
    """The worker that hosts the agent, or was to host the part, is not there now."""


class WorldUnavailableError(errors.UnavailableError):
    """The node cannot reach its world."""


class WorldRefusedError(errors.AbortedError):
    """The world refused what was asked of it."""

    @property
    def world_reason(self) -> str:
        """Name of the world's reason."""
        return self.metadata.get("world_reason", "")


RUNTIME_REASONS: dict[str, Row] = {
    "MALFORMED_MESSAGE": (_Code.INVALID_ARGUMENT, reasons.MalformedMessageError),
    "INVALID_FIELD": (_Code.INVALID_ARGUMENT, reasons.InvalidFieldError),
    "LIMIT_EXCEEDED": (_Code.INVALID_ARGUMENT, reasons.LimitExceededError),
    "LAUNCH_REFUSED": (_Code.INVALID_ARGUMENT, LaunchRefusedError),
    "RUN_NOT_FOUND": (_Code.NOT_FOUND, RunNotFoundError),
    "AGENT_NOT_FOUND": (_Code.NOT_FOUND, AgentNotFoundError),
    "PART_NOT_FOUND": (_Code.NOT_FOUND, PartNotFoundError),
    "RUN_EXISTS": (_Code.ALREADY_EXISTS, RunExistsError),
    "SEAT_TAKEN": (_Code.ALREADY_EXISTS, SeatTakenError),
    "RUN_ACTIVE": (_Code.FAILED_PRECONDITION, RunActiveError),
    "TURN_OVER": (_Code.FAILED_PRECONDITION, TurnOverError),
    "CAPACITY_EXCEEDED": (_Code.RESOURCE_EXHAUSTED, CapacityExceededError),
    "DRAINING": (_Code.UNAVAILABLE, reasons.DrainingError),
    "WORKER_UNAVAILABLE": (_Code.UNAVAILABLE, WorkerUnavailableError),
    "WORLD_UNAVAILABLE": (_Code.UNAVAILABLE, WorldUnavailableError),
    "WORLD_REFUSED": (_Code.ABORTED, WorldRefusedError),
    "DEADLINE": (_Code.DEADLINE_EXCEEDED, errors.DeadlineExceededError),
    "INTERNAL": (_Code.INTERNAL, errors.InternalError),
}


def from_runtime_error(error: grpc.aio.AioRpcError) -> EcumeneError:
    """The exception for a status that ended a call of a node."""
    known = from_rpc_error(error)
    row = RUNTIME_REASONS.get(known.reason)
    return known if row is None or type(known) is row[1] else row[1](known.details)
