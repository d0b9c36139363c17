"""The launch description and all bounds of a runtime. Plain data: JSON, and Arrow files for who the agents are."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from ecumene.client import EventType
from ecumene.client.globs import compile_key_glob, compile_path_glob
from pydantic import Discriminator, Field, Tag, ValidationError, model_validator

from agent_runtime.llm.settings import (
    ENGINE_START_TIMEOUT_S,
    EndpointSettings,
    Faults,
    Frozen,
    ModelMix,
    ModelSettings,
    Name,
    PriceSettings,
    RunBudget,
    Thinking,
    VllmSettings,
)
from agent_runtime.model.errors import LaunchError
from agent_runtime.model.parts import Part
from agent_runtime.model.wakes import Time

__all__ = [
    "EndpointSettings",
    "Faults",
    "GroupSpec",
    "Launch",
    "ModelMix",
    "ModelSettings",
    "PriceSettings",
    "RunBudget",
    "Thinking",
    "VllmSettings",
    "WakeRule",
    "WorkerConfig",
    "WorkerSettings",
    "load_launch",
    "parse_launch",
]


RECORDS_FLUSH_S = 30.0
"""What records may take to be on disk."""
LOCAL_PROVIDERS = frozenset({"local", "vllm"})
RUN_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,79}$"
"""What a run may be called: also one name of a folder, and one segment of a path in the world."""
ModelName = Annotated[
    Annotated[str, Tag("name")] | Annotated[ModelMix, Tag("mix")],
    Discriminator(lambda given: "name" if isinstance(given, str) else "mix"),
]


DAY_S = 86_400
Seconds = Annotated[float, Field(gt=0, le=DAY_S, allow_inf_nan=False)]
Seed = Annotated[int, Field(ge=-(2**63), le=2**63 - 1)]
MAILBOX_MAX = 32_767
"""Notices are counted in 16 bits an agent."""
CROWD_MAX = 10_000_000


class WakeRule(Frozen):
    """Which events wake the agents of a group. An empty part does not restrict.

    Attributes:
        path: a glob over the whole path, as in `ecumene.client.globs`: `*` stays within a segment, `**` does not.
        types: event types in lower case, such as `behaviour`, `gate_opened`, `entry_set`.
        key: a glob over keys, or `{agent}`: the event then wakes the one agent with that id.
    """

    path: str = ""
    types: tuple[str, ...] = ()
    key: str = ""

    @model_validator(mode="after")
    def _check(self) -> Self:
        known = {kind.name.lower() for kind in EventType}
        if unknown := set(self.types) - known:
            raise ValueError(
                f"no event type is called {', '.join(sorted(unknown))}; there are {', '.join(sorted(known))}"
            )
        if self.path:
            compile_path_glob(self.path)
        if self.key != "{agent}":
            compile_key_glob(self.key)
        return self

    def event_types(self) -> tuple[EventType, ...]:
        """The types as the world numbers them."""
        return tuple(EventType[name.upper()] for name in self.types)


class GroupSpec(Frozen):
    """Agents that are placed together and are of one class.

    Attributes:
        agent: name of an installed class (see `agents.registry`), or `module:Class`.
        agents: Arrow IPC file, one row an agent: `agent_id` and any attributes. Relative to the description.
        rows: first row and the one after the last that belong to the group; None = all.
        model: name of one of the launch's models, or a mix of several.
        seed: None = the launch's.
        thinking: time that rule agents take; model agents take what their model takes.
        mailbox_max: notices that may wait for one busy agent; one more ends as a cancelled turn, unless it is a wake.
        turns_in_flight_max: turns of the group that a worker runs at a time, in each part of it that it owns (one, if
            `parts` is not given); the others wait as rows.
        parts: pieces that workers own, fixed for the run; None = as many as the launch has workers.
        resumable: keep what each agent remembers, and how its last turn ended, in the world, so that another worker
            goes on with it and asks no model again; None = yes for agents that are objects. Rule agents have nothing
            to keep.
        clock: path of an environment by whose clock the agents live; "" = by none: nobody asks to be woken.
        first_wake_ns: when each of them is woken for the first time; None = not unless its class says so.
        process: `shared`: many agents a worker process; `agent`: each agent has a process of its own.
        node_labels: labels that a node must have to host agents of the group.
    """

    name: Name
    agent: str
    agents: Path
    rows: tuple[int, int] | None = None
    wake: tuple[WakeRule, ...] = ()
    parameters: Mapping[str, Any] = {}
    model: ModelName | None = None
    seed: Seed | None = None
    thinking: Thinking = Thinking()
    turn_timeout_s: Seconds = 300.0
    mailbox_max: Annotated[int, Field(ge=1, le=MAILBOX_MAX)] = 64
    turns_in_flight_max: Annotated[int, Field(ge=1, le=CROWD_MAX)] = 100_000
    parts: Annotated[int, Field(ge=1, le=4096)] | None = None
    resumable: bool | None = None
    clock: Annotated[str, Field(pattern=r"^(/.*)?$")] = ""
    first_wake_ns: Time | None = None
    process: Literal["shared", "agent"] = "shared"
    node_labels: Mapping[str, str] = {}

    @model_validator(mode="after")
    def _check_wakes(self) -> Self:
        if not self.wake and self.first_wake_ns is None:
            raise ValueError("nothing ever wakes its agents: name a rule in wake, or a first_wake_ns")
        if self.first_wake_ns is not None and not self.clock:
            raise ValueError("whoever is woken at a time lives by a clock: name it")
        return self

    def models(self) -> frozenset[str]:
        """The models that its agents ask."""
        if isinstance(self.model, ModelMix):
            return self.model.models()
        return frozenset() if self.model is None else frozenset({self.model})


class WorkerSettings(Frozen):
    """Bounds of one worker.

    Attributes:
        block_ops_max: reports that travel in one frame.
        linger_ms: how long a report waits for others before its frame goes.
        ops_waiting_max: ops of turns that may wait for their answer; then turns wait to commit.
        notices_waiting_max: notices that wait to be delivered; then the watch is not read on.
        stop_timeout_s: a stop waits for the world this long in all; two seconds for one that is away.
        connect_timeout_s: the first connection to the world gets this long.
        reconnect_timeout_s: a world that is gone longer ends the worker.
        lease_ttl_s: a worker that is silent for so long loses its parts; then others may take them.
        cursor_interval_s: how often a part notes up to where everything has had its effect.
    """

    block_ops_max: Annotated[int, Field(ge=1, le=4096)] = 1000
    linger_ms: Annotated[float, Field(gt=0, le=10_000, allow_inf_nan=False)] = 3.0
    ops_waiting_max: Annotated[int, Field(ge=1, le=CROWD_MAX)] = 65_536
    notices_waiting_max: Annotated[int, Field(ge=1, le=CROWD_MAX)] = 1024
    stop_timeout_s: Annotated[Seconds, Field(le=600)] = 10.0
    connect_timeout_s: Annotated[Seconds, Field(le=600)] = 20.0
    reconnect_timeout_s: Seconds = 120.0
    lease_ttl_s: Annotated[float, Field(ge=1, le=3600)] = 10.0
    cursor_interval_s: Annotated[Seconds, Field(le=600)] = 1.0
    uvloop: bool = True

    @property
    def drop_timeout_s(self) -> float:
        """What giving a part back may take at most, without draining: catching up, commits, records, the cursor."""
        return 2 * self.stop_timeout_s + RECORDS_FLUSH_S


class Launch(Frozen):
    """What a runtime hosts: the launch description.

    Attributes:
        run: id of the run, for records and for its place in the world.
        node: name of this node, for records; unique among the runtimes of a run.
        seed: from which everything random follows.
        workers: processes; None = one a core.
        models: by name.
        budget: what all of them may spend together.
        recording: the run's directory; None records nothing.
        from_revision: first revision whose events may wake an agent; 0 = those after the start.
        resume: go on with a run of this id, with the same seed and groups; without it, a run that exists is refused.
    """

    run: Annotated[str, Field(pattern=RUN_NAME)]
    groups: Annotated[tuple[GroupSpec, ...], Field(min_length=1)]
    node: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._]{0,39}$")] = "node"
    seed: Seed = 0
    workers: Annotated[int, Field(ge=1, le=1024)] | None = None
    models: Mapping[str, ModelSettings] = {}
    budget: RunBudget = RunBudget()
    recording: Path | None = None
    from_revision: Annotated[int, Field(ge=0, le=2**63 - 1)] = 0
    resume: bool = False
    worker: WorkerSettings = WorkerSettings()

    @model_validator(mode="after")
    def _check(self) -> Self:
        names = [group.name for group in self.groups]
        if len(names) != len(set(names)):
            raise ValueError("two groups have the same name")
        for group in self.groups:
            for model in group.models():
                if model not in self.models:
                    raise ValueError(f"group {group.name} asks model {model!r}, which models does not name")
        return self

    def asks_local(self, group: GroupSpec) -> bool:
        """Whether a group asks a model that is loaded into the worker: once a node is enough."""
        return any(self.models[name].provider in LOCAL_PROVIDERS for name in group.models())

    def load_timeout_s(self, group: GroupSpec) -> float:
        """What the models of a group may take to load in the worker, beside all else that its start takes."""
        models = (self.models[name] for name in group.models())
        return sum(model.vllm.engines * ENGINE_START_TIMEOUT_S for model in models if model.provider == "vllm")


class WorkerConfig(Frozen):
    """What a worker is told: the launch, and which parts it hosts from the start."""

    server: str
    world: str
    index: int
    launch: Launch
    parts: tuple[Part, ...] = ()


def load_launch(path: Path) -> Launch:
    """The launch description in a JSON file; its relative paths count from there.

    Raises LaunchError.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        problem = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise LaunchError(str(path), f"cannot be read: {problem}") from error
    launch = parse_launch(document)
    folder = path.resolve().parent
    groups = tuple(group.model_copy(update={"agents": folder / group.agents}) for group in launch.groups)
    recording = folder / launch.recording if launch.recording is not None else None
    models = {name: _resolve_paths(model, folder) for name, model in launch.models.items()}
    return launch.model_copy(update={"groups": groups, "recording": recording, "models": models})


def _resolve_paths(model: ModelSettings, folder: Path) -> ModelSettings:
    paths = {name: getattr(model, name) for name in ("api_key_file", "replay_from", "cache")}
    resolved: dict[str, Any] = {name: folder / path for name, path in paths.items() if path is not None}
    if model.endpoints:
        resolved["endpoints"] = tuple(
            endpoint
            if endpoint.api_key_file is None
            else endpoint.model_copy(update={"api_key_file": folder / endpoint.api_key_file})
            for endpoint in model.endpoints
        )
    return model.model_copy(update=resolved)


def parse_launch(document: Any) -> Launch:
    """A launch description from plain data. Raises LaunchError, which names the first mistake."""
    try:
        return Launch.model_validate(document)
    except ValidationError as error:
        details = error.errors(include_url=False, include_context=False, include_input=False)
        more = f" (and {len(details) - 1} more)" if len(details) > 1 else ""
        where = ".".join(map(str, details[0]["loc"]))
        raise LaunchError(where, details[0]["msg"].removeprefix("Value error, ") + more) from error
