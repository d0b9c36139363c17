"""From a spec to what a runtime is launched with: one JSON description, and an Arrow file of agents a group."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ecumene.sim.populations.population import Population, dump_parameters
from ecumene.sim.populations.telling import write_value
from ecumene.sim.runs.budgets import Quotas, describe_budget
from ecumene.sim.runs.launched_models import describe_choice, describe_models
from ecumene.sim.specs.game import GAME_PATH
from ecumene.sim.specs.placeholders import fill, list_placeholders
from ecumene.sim.specs.population import PROMPTED, GroupSpec
from ecumene.sim.specs.spec import RunSpec

LAUNCH_NAME = "launch.json"
AGENTS_PER_WORKER_MIN = 25_000
PARTS_MAX = 256
TURN_TIMEOUT_MIN_S = 300.0

AGENT_CLASSES = {PROMPTED: "prompted-player"}


def write_launch(
    spec: RunSpec,
    population: Population,
    *,
    run: str,
    directory: Path,
    workers: int | None,
    quotas: Quotas | None = None,
    parts_of_nodes: bool = False,
) -> Path:
    """Write the launch description of a run and its agents into a folder `launch` of the run's directory.

    `workers` None: as many as the agents need and the machine has cores for. `quotas`: those that its world keeps.
    `parts_of_nodes`: groups are cut by their agents alone, so that a later launch over other nodes finds the same
    parts. Returns the description's path.

    Raises OSError: the directory cannot be written.
    """
    folder = directory / "launch"
    folder.mkdir(parents=True, exist_ok=True)
    quotas = quotas or Quotas()
    document: dict[str, Any] = {
        "run": run,
        "seed": spec.seed,
        "recording": str(directory.resolve()),
        "models": describe_models(spec, quotas),
        "budget": describe_budget(quotas),
        "groups": [
            describe_group(spec, group) | ({"parts": choose_parts(rows)} if parts_of_nodes else {})
            for place, group in enumerate(population.groups)
            if (rows := write_agents(population, place, folder / f"{group.name}.arrow"))
        ],
    }
    if not parts_of_nodes:
        document["workers"] = workers or choose_workers(len(population))
    path = folder / LAUNCH_NAME
    _write_launch(path, document)
    return path


def mark_resumed(path: Path) -> None:
    """Let a launch go on with its run, instead of beginning it. Raises OSError."""
    _write_launch(path, json.loads(path.read_text(encoding="utf-8")) | {"resume": True})


def choose_parts(agents: int) -> int:
    """Into how many parts a group is cut that nodes are to share."""
    return max(1, min(PARTS_MAX, agents // AGENTS_PER_WORKER_MIN))


def _write_launch(path: Path, document: dict[str, Any]) -> None:
    path.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def choose_workers(agents: int) -> int:
    """Worker processes for a number of agents: each costs a start, and none is worth it for a few thousand."""
    return max(1, min(os.cpu_count() or 1, agents // AGENTS_PER_WORKER_MIN))


def write_agents(population: Population, place: int, path: Path) -> int:
    """Write the agents of one group; returns how many there are, and writes no file for none."""
    rows = np.flatnonzero(population.codes == place)
    if not len(rows):
        return 0
    group = population.groups[place]
    columns: dict[str, Any] = {"agent_id": population.name_rows(rows)}
    attributes = None if population.profiles is None else population.profiles.drop_columns("agent").take(rows)
    if attributes is not None:
        columns |= dict(zip(attributes.column_names, attributes.columns, strict=True))
    if group.persona:
        personas = fill_persona(group.persona, attributes) if attributes is not None else [group.persona] * len(rows)
        columns["persona"] = pa.array(personas, pa.string())
    table = pa.table(columns)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    return len(rows)


def fill_persona(persona: str, attributes: pa.Table) -> list[str]:
    """A persona for each agent, with the values of its attributes in place of their names in braces."""
    names = list_placeholders(persona)
    if not names:
        return [persona] * len(attributes)
    values = zip(*(attributes.column(name).to_pylist() for name in names), strict=True)
    return [fill(persona, dict(zip(names, map(write_value, row), strict=True))) for row in values]


def describe_wakes(spec: RunSpec, group: GroupSpec) -> list[dict[str, Any]]:
    """Which events wake the agents of a group: first that which opens a round; its document says what it asks for."""
    path = GAME_PATH if spec.experiment is None else spec.experiment.environment
    opening = [] if path is None else [{"path": path, "types": ["behaviour"], "key": "round.opened"}]
    return [*opening, *(rule.model_dump(mode="json") for rule in group.wake)]


def describe_clock(spec: RunSpec, group: GroupSpec) -> dict[str, Any]:
    """By which clock the agents of a group live, and when they are first woken."""
    path = spec.find_clock_path(group)
    if not path:
        return {}
    first_ns = group.first_wake
    if first_ns is None and spec.experiment is not None and path == spec.experiment.clock:
        first_ns = spec.clock_start_ns
    return {"clock": path, **({} if first_ns is None else {"first_wake_ns": first_ns})}


def describe_group(spec: RunSpec, group: GroupSpec) -> dict[str, Any]:
    """A group as the runtime takes it."""
    parameters = json.loads(dump_parameters(group))
    described: dict[str, Any] = {
        "name": group.name,
        "agent": AGENT_CLASSES.get(group.agent, group.agent),
        "agents": f"{group.name}.arrow",
        "wake": describe_wakes(spec, group),
        "parameters": parameters,
        "process": group.process,
        # Within a round the waiting for a model's free place counts: the round's own deadline ends it.
        "turn_timeout_s": max(TURN_TIMEOUT_MIN_S, spec.deadline_s or 0.0),
        **describe_clock(spec, group),
    }
    if group.agent == PROMPTED:
        if parameters["fallback"] is None:
            del parameters["fallback"]
        if not parameters["note"]:
            del parameters["note"]
        if spec.game.players == "groups":
            parameters["groups_play"] = [each.name for each in spec.population.groups if each.count != 0]
        del parameters["temperature"]
    if spec.list_asked(group):
        described["model"] = describe_choice(spec, group)
    return described
