"""From a spec to what a runtime is launched with: one JSON description, and an Arrow file of agents a group."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ecumene.sim.population import Population, dump_parameters
from ecumene.sim.population_spec import GroupSpec
from ecumene.sim.spec import ModelSpec, RunSpec
from ecumene.sim.spec_errors import SpecError, SpecProblem

LAUNCH_NAME = "launch.json"
AGENTS_PER_WORKER_MIN = 25_000
PROMPTED = "prompted"
SCRIPTED_ANSWERS = "agent_runtime.agents.scripted_answers:guess_number"
LOCAL_SLOTS_MAX = 16

# The event that opens a round; what it asks for stands in its document.
WAKE_RULES = [{"path": "/game", "types": ["behaviour"], "key": "round.opened"}]
AGENT_CLASSES = {PROMPTED: "prompted-player"}


def write_launch(spec: RunSpec, population: Population, *, run: str, directory: Path, workers: int | None) -> Path:
    """Write the launch description of a run and its agents into a folder `launch` of the run's directory.

    `workers` None: as many as the agents need and the machine has cores for. Returns the description's path.

    Raises:
        SpecError: the spec asks for something that this runtime does not offer.
        OSError: the directory cannot be written.
    """
    folder = directory / "launch"
    folder.mkdir(parents=True, exist_ok=True)
    document: dict[str, Any] = {
        "run": run,
        "seed": spec.seed,
        "workers": workers or choose_workers(len(population)),
        "recording": str(directory.resolve()),
        "models": describe_models(spec),
        "groups": [
            describe_group(spec, place, group)
            for place, group in enumerate(population.groups)
            if write_agents(population, place, folder / f"{group.name}.arrow")
        ],
    }
    path = folder / LAUNCH_NAME
    path.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def choose_workers(agents: int) -> int:
    """Worker processes for a number of agents: each costs a start, and none is worth it for a few thousand."""
    return max(1, min(os.cpu_count() or 1, agents // AGENTS_PER_WORKER_MIN))


def write_agents(population: Population, place: int, path: Path) -> int:
    """Write the agents of one group; returns how many there are, and writes no file for none."""
    rows = np.flatnonzero(population.codes == place)
    if not len(rows):
        return 0
    group = population.groups[place]
    columns: dict[str, pa.Array] = {"agent_id": population.name_rows(rows)}
    if group.persona:
        columns["persona"] = pa.array([group.persona] * len(rows), pa.string())
    table = pa.table(columns)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    return len(rows)


def describe_group(spec: RunSpec, place: int, group: GroupSpec) -> dict[str, Any]:
    """A group as the runtime takes it."""
    parameters = json.loads(dump_parameters(group))
    described: dict[str, Any] = {
        "name": group.name,
        "agent": AGENT_CLASSES.get(group.agent, group.agent),
        "agents": f"{group.name}.arrow",
        "wake": WAKE_RULES,
        "parameters": parameters,
        "process": group.process,
    }
    if group.agent == PROMPTED:
        if parameters.pop("fallback", None) is not None:
            problem = SpecProblem(f"population.groups[{place}].parameters.fallback", "not offered by this runtime yet")
            raise SpecError("spec", [problem])
        described["model"] = name_model(spec, parameters.pop("temperature", None))
    return described


def name_model(spec: RunSpec, temperature: float | None) -> str:
    """The name, within the launch, of the spec's model at a temperature; None = the spec's own."""
    return spec.model.name if temperature is None else f"{spec.model.name}@{temperature:g}"


def describe_models(spec: RunSpec) -> dict[str, Any]:
    """The spec's model, once for each temperature at which a group asks it."""
    temperatures = {group.parameters.get("temperature") for group in spec.population.groups if group.agent == PROMPTED}
    return {
        name_model(spec, temperature): describe_model(
            spec, spec.model.temperature if temperature is None else temperature
        )
        for temperature in temperatures
    }


def describe_model(spec: RunSpec, temperature: float | None) -> dict[str, Any]:
    """A model as the runtime takes it. Keys of endpoints are named, never carried."""
    model: ModelSpec = spec.model
    described: dict[str, Any] = {
        "provider": model.provider,
        "model": model.name,
        "temperature": temperature,
        "max_tokens": model.max_tokens,
        "in_flight_max": model.in_flight_max,
        "timeout_s": model.timeout_s,
        "record_bodies": spec.recording.bodies,
    }
    if model.provider == "openai":
        described["base_url"] = model.endpoint
        described["api_key_env"] = model.api_key_variable
        described["api_key_file"] = None if model.api_key_file is None else str(model.api_key_file.resolve())
    elif model.provider == "scripted":
        described["answers"] = SCRIPTED_ANSWERS
        described["latency"] = {"kind": "fixed", "ms": model.latency_ms}
    else:
        described["slots"] = described["in_flight_max"] = min(model.in_flight_max, LOCAL_SLOTS_MAX)
        described["threads"] = os.cpu_count() or 1
        described["seed_answers"] = True
    return described
