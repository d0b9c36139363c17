"""The launch description and all bounds of a runtime. Plain data: JSON, and Arrow files for who the agents are."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from ecumene.client import EventType
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from agent_runtime.llm.latency import (
    ExponentialLatency,
    FixedLatency,
    LatencyDistribution,
    LognormalLatency,
    UniformLatency,
)
from agent_runtime.llm.providers.scripted import FaultRates
from agent_runtime.model.errors import LaunchError
from agent_runtime.model.parts import Part

Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,39}$")]
Share = Annotated[float, Field(ge=0, le=1)]
Milliseconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Thinking(_Frozen):
    """Simulated thinking time, as a distribution over agents and turns; `kind` says which fields count."""

    kind: Literal["fixed", "uniform", "lognormal", "exponential"] = "fixed"
    ms: Milliseconds = 0.0
    low_ms: Milliseconds = 0.0
    high_ms: Milliseconds = 0.0
    median_ms: Milliseconds = 0.0
    sigma: Annotated[float, Field(ge=0, le=5)] = 0.0
    mean_ms: Milliseconds = 0.0

    @model_validator(mode="after")
    def _check(self) -> Self:
        self.distribution()
        return self

    def distribution(self) -> LatencyDistribution:
        """What to draw from."""
        if self.kind == "uniform":
            return UniformLatency(self.low_ms, self.high_ms)
        if self.kind == "lognormal":
            return LognormalLatency(self.median_ms, self.sigma)
        if self.kind == "exponential":
            return ExponentialLatency(self.mean_ms)
        return FixedLatency(self.ms)


class Faults(_Frozen):
    """Shares of a scripted model's calls that fail, each in its way; see `FaultRates`."""

    timeout: Share = 0.0
    unavailable: Share = 0.0
    garbage: Share = 0.0
    truncated: Share = 0.0
    refused: Share = 0.0

    @model_validator(mode="after")
    def _check(self) -> Self:
        self.rates()
        return self

    def rates(self) -> FaultRates:
        """The same, as the provider takes it."""
        return FaultRates(**self.model_dump())


class ModelSettings(_Frozen):
    """A model that agents ask. Bounds count per node: workers share them out.

    Attributes:
        model: the name that the endpoint knows and the records show.
        base_url, api_key_env, api_key_file, max_tokens_field: of provider `openai`.
        answers: of provider `scripted`: `module:function`, see `ScriptedProvider`.
        latency, faults: of provider `scripted`.
        slots, context_tokens, threads: of provider `local`.
        tokens_max: tokens sent and received after which turns end with status `budget`; None = no bound.
        seed_answers: send a sampling seed of its own for each agent, turn and call.
        record_bodies: keep messages and answers in the records of calls.
    """

    provider: Literal["scripted", "openai", "local"]
    model: str = "scripted"
    temperature: Annotated[float, Field(ge=0, le=10)] | None = None
    max_tokens: Annotated[int, Field(ge=1)] = 256
    tokens_max: Annotated[int, Field(ge=0)] | None = None
    seed_answers: bool = False
    record_bodies: bool = False
    in_flight_max: Annotated[int, Field(ge=1)] = 64
    queue_max: Annotated[int, Field(ge=0)] = 1024
    timeout_s: Annotated[float, Field(gt=0)] = 60.0
    attempts_max: Annotated[int, Field(ge=1)] = 5
    retry_total_s: Annotated[float, Field(ge=0)] = 180.0
    repairs_max: Annotated[int, Field(ge=0)] = 1
    base_url: str = ""
    api_key_env: str | None = None
    api_key_file: Path | None = None
    max_tokens_field: str = "max_tokens"
    answers: str = ""
    latency: Thinking = Thinking()
    faults: Faults = Faults()
    slots: Annotated[int, Field(ge=1)] = 16
    context_tokens: Annotated[int, Field(ge=256)] = 2048
    threads: Annotated[int, Field(ge=1)] = 2


class WakeRule(_Frozen):
    """Which events wake the agents of a group. An empty part does not restrict.

    Attributes:
        path: a glob over the whole path: `*` stays within a segment, `**` does not.
        types: event types in lower case, such as `behaviour`, `gate_opened`, `entry_set`.
        key: a shell-style glob, or `{agent}`: the event then wakes the one agent with that id.
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
        return self

    def event_types(self) -> tuple[EventType, ...]:
        """The types as the world numbers them."""
        return tuple(EventType[name.upper()] for name in self.types)


class GroupSpec(_Frozen):
    """Agents that are placed together and are of one class.

    Attributes:
        agent: name of an installed class (see `agents.registry`), or `module:Class`.
        agents: Arrow IPC file, one row an agent: `agent_id` and any attributes. Relative to the description.
        rows: first row and the one after the last that belong to the group; None = all.
        model: name of one of the launch's models.
        seed: None = the launch's.
        thinking: time that rule agents take; model agents take what their model takes.
        mailbox_max: notices that may wait for one busy agent; one more ends as a cancelled turn.
        turns_in_flight_max: turns of the group that a worker runs at a time; the others wait as rows.
        parts: pieces that workers own, fixed for the run; None = as many as the launch has workers.
        resumable: keep what each agent remembers, and how its last turn ended, in the world, so that another worker
            goes on with it and asks no model again; None = yes for agents that are objects. Rule agents have nothing
            to keep.
        process: `shared`: many agents a worker process; `agent`: each agent has a process of its own.
        node_labels: labels that a node must have to host agents of the group.
    """

    name: Name
    agent: str
    agents: Path
    rows: tuple[int, int] | None = None
    wake: Annotated[tuple[WakeRule, ...], Field(min_length=1)]
    parameters: Mapping[str, Any] = {}
    model: str | None = None
    seed: int | None = None
    thinking: Thinking = Thinking()
    turn_timeout_s: Annotated[float, Field(gt=0)] = 300.0
    mailbox_max: Annotated[int, Field(ge=1)] = 64
    turns_in_flight_max: Annotated[int, Field(ge=1)] = 100_000
    parts: Annotated[int, Field(ge=1, le=4096)] | None = None
    resumable: bool | None = None
    process: Literal["shared", "agent"] = "shared"
    node_labels: Mapping[str, str] = {}


class WorkerSettings(_Frozen):
    """Bounds of one worker.

    Attributes:
        block_ops_max: reports that travel in one frame.
        linger_ms: how long a report waits for others before its frame goes.
        ops_waiting_max: ops of turns that may wait for their answer; then turns wait to commit.
        notices_waiting_max: notices that wait to be delivered; then the watch is not read on.
        stop_timeout_s: a stop gives what is being committed this long.
        connect_timeout_s: the first connection to the world gets this long.
        reconnect_timeout_s: a world that is gone longer ends the worker.
        lease_ttl_s: a worker that is silent for so long loses its parts; then others may take them.
        cursor_interval_s: how often a part notes up to where everything has had its effect.
    """

    block_ops_max: Annotated[int, Field(ge=1, le=4096)] = 1000
    linger_ms: Annotated[float, Field(gt=0)] = 3.0
    ops_waiting_max: Annotated[int, Field(ge=1)] = 65_536
    notices_waiting_max: Annotated[int, Field(ge=1)] = 1024
    stop_timeout_s: Annotated[float, Field(gt=0)] = 10.0
    connect_timeout_s: Annotated[float, Field(gt=0)] = 20.0
    reconnect_timeout_s: Annotated[float, Field(gt=0)] = 120.0
    lease_ttl_s: Annotated[float, Field(ge=1, le=3600)] = 10.0
    cursor_interval_s: Annotated[float, Field(gt=0)] = 1.0
    uvloop: bool = True


class Launch(_Frozen):
    """What a runtime hosts: the launch description.

    Attributes:
        run: id of the run, for records and for its place in the world.
        node: name of this node, for records; unique among the runtimes of a run.
        seed: from which everything random follows.
        workers: processes; None = one a core.
        recording: the run's directory; None records nothing.
        from_revision: first revision whose events may wake an agent; 0 = those after the start.
        resume: go on with a run of this id, with the same seed and groups; without it, a run that exists is refused.
    """

    run: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,79}$")]
    groups: Annotated[tuple[GroupSpec, ...], Field(min_length=1)]
    node: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._]{0,39}$")] = "node"
    seed: int = 0
    workers: Annotated[int, Field(ge=1, le=1024)] | None = None
    models: Mapping[str, ModelSettings] = {}
    recording: Path | None = None
    from_revision: Annotated[int, Field(ge=0)] = 0
    resume: bool = False
    worker: WorkerSettings = WorkerSettings()

    @model_validator(mode="after")
    def _check(self) -> Self:
        names = [group.name for group in self.groups]
        if len(names) != len(set(names)):
            raise ValueError("two groups have the same name")
        for group in self.groups:
            if group.model is not None and group.model not in self.models:
                raise ValueError(f"group {group.name} asks model {group.model!r}, which models does not name")
        return self


class WorkerConfig(_Frozen):
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
    return launch.model_copy(update={"groups": groups, "recording": recording})


def parse_launch(document: Any) -> Launch:
    """A launch description from plain data. Raises LaunchError, which names the first mistake."""
    try:
        return Launch.model_validate(document)
    except ValidationError as error:
        details = error.errors(include_url=False, include_context=False, include_input=False)
        more = f" (and {len(details) - 1} more)" if len(details) > 1 else ""
        where = ".".join(map(str, details[0]["loc"]))
        raise LaunchError(where, details[0]["msg"].removeprefix("Value error, ") + more) from error
