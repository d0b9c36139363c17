"""The models of a spec as a launch takes them: one for each temperature at which a group asks it."""

from __future__ import annotations

import os
from typing import Any

from ecumene.sim.runs.budgets import BUDGET_LIMITS, RATE_LIMITS, Quotas
from ecumene.sim.specs.models import EndpointSpec, ModelSpec
from ecumene.sim.specs.population import GroupSpec
from ecumene.sim.specs.spec import RunSpec

SCRIPTED_ANSWERS = "agent_runtime.agents.scripted_answers:guess_number"
LOCAL_SLOTS_MAX = 16
LOCAL = "local"

SAME_NAMES = (
    *("provider", "max_tokens", "max_tokens_field", "two_call", "in_flight_max", "queue_max", "prompt_tokens_max"),
    *("turn_tokens_max", "timeout_s", "attempts_max", "retry_total_s", "repairs_max", "breaker_failures"),
    *("cache_bytes_max", "context_tokens"),
)
"""Fields that a launch knows by the name that they have in a spec."""


def describe_models(spec: RunSpec, quotas: Quotas) -> dict[str, Any]:
    """The models that groups ask, by the names by which `describe_choice` names them."""
    described: dict[str, Any] = {}
    for group in spec.population.groups:
        temperature = group.temperature
        for name in spec.list_asked(group):
            model = spec.list_models()[name]
            at = model.temperature if temperature is None else temperature
            described[name_model(name, temperature)] = describe_model(spec, name, model, at, quotas)
    return described


def describe_choice(spec: RunSpec, group: GroupSpec) -> Any:
    """Which of the launch's models the agents of a group ask: a name, or weights by name."""
    temperature = group.temperature
    if group.models:
        return {"weights": {name_model(name, temperature): weight for name, weight in group.models.items()}}
    return name_model(spec.list_asked(group)[0], temperature)


def name_model(name: str, temperature: float | None) -> str:
    """The name, within the launch, of a spec's model at a temperature; None = the spec's own."""
    return name if temperature is None else f"{name}@{temperature:g}"


def list_launched(spec: RunSpec) -> dict[str, str]:
    """The models of the launch by their names there, each with its name in the spec."""
    return {
        name_model(name, group.temperature): name for group in spec.population.groups for name in spec.list_asked(group)
    }


def describe_model(
    spec: RunSpec, name: str, model: ModelSpec, temperature: float | None, quotas: Quotas
) -> dict[str, Any]:
    """A model as the runtime takes it. Keys of endpoints are named, never carried."""
    is_local = model.provider == LOCAL
    described: dict[str, Any] = {field: getattr(model, field) for field in SAME_NAMES}
    described |= {
        "model": model.name,
        "temperature": temperature,
        "seed_answers": is_local if model.seed_answers is None else model.seed_answers,
        "price": model.price.model_dump(),
        "record_bodies": spec.recording.bodies,
        "base_url": model.endpoint or "",
        "endpoints": [describe_endpoint(endpoint) for endpoint in model.endpoints],
        **_describe_key(model),
        "vllm": model.vllm.model_dump(),
    }
    for field in ("cache", "replay_from"):
        path = getattr(model, field)
        described[field] = None if path is None else str(path.resolve())
    described |= _describe_limits(name, model, quotas)
    if model.provider == "scripted":
        described["answers"] = model.answers or SCRIPTED_ANSWERS
        described["latency"] = (
            {"kind": "fixed", "ms": model.latency_ms} if model.latency is None else model.latency.model_dump()
        )
        described["faults"] = {} if model.faults is None else model.faults.model_dump()
    elif is_local:
        described["slots"] = model.slots or min(model.in_flight_max, LOCAL_SLOTS_MAX)
        described["in_flight_max"] = min(model.in_flight_max, described["slots"])
        described["threads"] = model.threads or os.cpu_count() or 1
    return described


def describe_endpoint(endpoint: EndpointSpec) -> dict[str, Any]:
    """One of several endpoints."""
    return {
        "base_url": endpoint.url,
        "weight": endpoint.weight,
        "in_flight_max": endpoint.in_flight_max,
        **_describe_key(endpoint),
    }


def _describe_key(holder: ModelSpec | EndpointSpec) -> dict[str, str | None]:
    file = holder.api_key_file
    return {"api_key_env": holder.api_key_variable, "api_key_file": None if file is None else str(file.resolve())}


def _describe_limits(name: str, model: ModelSpec, quotas: Quotas) -> dict[str, Any]:
    """Its limits; those in a quota of the run stand in the world alone, where they can be raised."""
    if name in quotas.of_models:
        return {"quota": quotas.of_models[name].name}
    limits = {limit: getattr(model, limit) for limit in (*RATE_LIMITS, *BUDGET_LIMITS)}
    return limits | {"quota": model.quota}
