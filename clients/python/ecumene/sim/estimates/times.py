"""How long a round takes, by the limits of its models."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from ecumene.sim.estimates.calls import ModelCalls, plan_calls
from ecumene.sim.estimates.latencies import typical_latency_s
from ecumene.sim.specs.models import ModelSpec
from ecumene.sim.specs.spec import RunSpec

START_S = (2.0, 6.0, 30.0)
"""Start and end of a run: server, runtime, report."""
TURNS_A_SECOND = {"low": 50_000.0, "likely": 10_000.0, "high": 1_000.0}
"""Of agents that need no model, beside what their models take."""
ANSWER_S = {"low": 0.5, "likely": 3.0, "high": 20.0}
"""Of one answer of a model that is not scripted."""
WINDOW_S = 60.0


def estimate_round_s(asked: Iterable[tuple[ModelSpec, ModelCalls, float]], agents: float, bound: str) -> float:
    """One round; models answer side by side. `asked`: model, its calls, tokens of its prompts in a round."""
    slowest = max((_model_s(*one, bound) for one in asked), default=0.0)
    return slowest + agents / TURNS_A_SECOND[bound]


def list_late(spec: RunSpec) -> Iterator[tuple[str, float]]:
    """Models that need longer for a round than its deadline, by what is known of them, and the seconds they need."""
    for name, calls in plan_calls(spec).items():
        model = spec.list_models()[name]
        waves = math.ceil(calls.turns_a_round / model.in_flight_max)
        by_rate = calls.a_round / model.requests_per_minute * 60 - WINDOW_S if model.requests_per_minute else 0.0
        needed_s = max(waves * calls.calls_a_turn * typical_latency_s(model), by_rate)
        if spec.deadline_s is not None and needed_s > spec.deadline_s:
            yield name, needed_s


def _model_s(model: ModelSpec, calls: ModelCalls, tokens: float, bound: str) -> float:
    latency_s = typical_latency_s(model) if model.provider == "scripted" else ANSWER_S[bound]
    waves = math.ceil(calls.turns_a_round / model.in_flight_max)
    by_latency = waves * calls.calls_a_turn * latency_s
    # The first window's allowance may go out at once, if the round before left it.
    spare = WINDOW_S if bound == "low" else 0.0
    by_requests = calls.a_round / model.requests_per_minute * 60 - spare if model.requests_per_minute else 0.0
    by_tokens = tokens / model.tokens_per_minute * 60 - spare if model.tokens_per_minute else 0.0
    return max(by_latency, by_requests, by_tokens)
