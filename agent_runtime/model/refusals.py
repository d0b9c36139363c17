"""What a node refuses, and why: one reason for each of `agent_api/v1/errors.proto`, same number."""

from __future__ import annotations

from enum import IntEnum

from agent_runtime.model.errors import AgentRuntimeError


class Refusal(IntEnum):
    """Names and numbers of `RuntimeErrorReason` in the contract, without their prefix."""

    MALFORMED_MESSAGE = 1
    INVALID_FIELD = 2
    LIMIT_EXCEEDED = 3
    LAUNCH_REFUSED = 4
    RUN_NOT_FOUND = 20
    AGENT_NOT_FOUND = 21
    PART_NOT_FOUND = 22
    RUN_EXISTS = 40
    SEAT_TAKEN = 41
    RUN_ACTIVE = 60
    TURN_OVER = 61
    CAPACITY_EXCEEDED = 80
    DRAINING = 100
    WORKER_UNAVAILABLE = 101
    WORLD_UNAVAILABLE = 102
    WORLD_REFUSED = 120
    DEADLINE = 140
    INTERNAL = 160


class NodeError(AgentRuntimeError):
    """A call that a node refuses. `metadata` goes over the wire as it is; the message is one line for people."""

    def __init__(self, reason: Refusal, message: str, *, retry_delay_ms: int = 0, **metadata: str) -> None:
        self.reason = reason
        self.message = " ".join(message.split())
        self.metadata = metadata
        self.retry_delay_ms = retry_delay_ms
        super().__init__(self.message)


def refuse_field(field: str, problem: str) -> NodeError:
    """A field of a request that never succeeds as it is."""
    return NodeError(Refusal.INVALID_FIELD, f"{field}: {problem}", field=field)


def refuse_limit(limit: str, maximum: int, actual: int) -> NodeError:
    """Something larger than a limit."""
    message = f"{actual:,} exceeds {limit} = {maximum:,}"
    return NodeError(Refusal.LIMIT_EXCEEDED, message, limit=limit, max=str(maximum), actual=str(actual))


def refuse_run(run: str) -> NodeError:
    """A run that is not known."""
    return NodeError(Refusal.RUN_NOT_FOUND, f"no such run: {run!r}", run=run)


def refuse_agent(run: str, agent: str) -> NodeError:
    """An agent that does not live on this node."""
    return NodeError(Refusal.AGENT_NOT_FOUND, f"no agent {agent!r} of run {run!r} lives here", run=run, agent=agent)
