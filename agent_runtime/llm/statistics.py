"""What a gateway is doing and has done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agent_runtime.llm.endpoints import BreakerState, Endpoint


@dataclass(frozen=True, slots=True)
class EndpointStatistics:
    """How one endpoint stands.

    Attributes:
        room: calls that it is given at a time now; less than its bound after it said that it is busy.
        answers, failures: calls that came back.
        opened: how often its breaker has opened.
    """

    name: str
    in_flight: int
    room: int
    answers: int
    failures: int
    breaker: BreakerState
    opened: int


@dataclass(frozen=True, slots=True)
class GatewayStatistics:
    """A snapshot.

    Attributes:
        in_flight: calls at endpoints.
        waiting: calls in the queue, their messages built.
        backing_off: questions that wait to be tried again, apart from the queue.
        held_back: callers waiting for the queue, their messages not yet built.
        answers: questions answered, of which `cached` by the cache alone.
        failures: questions that ended otherwise, by turn status (`cancelled` included).
        calls: provider calls, of which `retries` repeated one that had failed transiently.
        prompt_tokens, completion_tokens: as reported, over all calls; `microdollars` what they cost.
    """

    in_flight: int
    waiting: int
    backing_off: int
    held_back: int
    answers: int
    cached: int
    failures: Mapping[str, int]
    calls: int
    retries: int
    prompt_tokens: int
    completion_tokens: int
    microdollars: int
    endpoints: tuple[EndpointStatistics, ...]


def read_endpoint(endpoint: Endpoint, now_s: float) -> EndpointStatistics:
    """How an endpoint stands now."""
    return EndpointStatistics(
        endpoint.name,
        endpoint.in_flight,
        endpoint.room,
        endpoint.answers,
        endpoint.failures,
        endpoint.breaker.state(now_s),
        endpoint.breaker.opened,
    )
