"""The world of a run: its environments, their kinds, clocks and spaces, and what stands there at the beginning."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue, model_validator

from ecumene.sim.specs.durations import Span, Time
from ecumene.sim.specs.section import Section
from ecumene.sim.specs.spaces import Position, SpaceSpec

_PATH = re.compile(r"(/[A-Za-z0-9._-]{1,100}){1,16}")
_KIND = re.compile(r"[a-z][a-z0-9_.-]{0,63}")
_CLASS = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")
_NAME = r"^[a-z0-9][a-z0-9-]{0,39}$"


def _check_path(path: str) -> str:
    if not _PATH.fullmatch(path):
        raise ValueError(
            f"{path!r} is no path such as /town/market (letters, digits, '.', '_' and '-' between slashes)"
        )
    return path


def _check_kind(kind: str) -> str:
    if not _KIND.fullmatch(kind):
        raise ValueError(f"{kind!r} is no kind such as chat_room; a class of one's own stands in world.behaviours")
    return kind


def _check_class(name: str) -> str:
    if not _CLASS.fullmatch(name):
        raise ValueError(f"{name!r} is no class such as module:Class")
    return name


EnvironmentPath = Annotated[str, AfterValidator(_check_path)]
Kind = Annotated[str, AfterValidator(_check_kind)]
ClassName = Annotated[str, AfterValidator(_check_class)]
WorldName = Annotated[str, Field(pattern=_NAME)]
Key = Annotated[str, Field(min_length=1, max_length=200)]
PARTICIPANTS = "participants"
"""Child of an environment with an event-driven clock: who takes part in it."""


class ClockSpec(Section):
    """A clock, by which the environment and all below it live.

    Attributes:
        mode: `event_driven`: it goes on as soon as nobody has anything left to do; `manual`: when an operation or a
            program advances it; `realtime`: with the clock of the server's machine.
        start: the time at which it begins.
        rate: of a realtime clock: simulated time a real time.
        lookahead: how far it may run ahead of the nearest clock above it; none = it does not heed it.
    """

    mode: Literal["event_driven", "manual", "realtime"] = "event_driven"
    start: Time = 0
    rate: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    lookahead: Span | None = None

    @model_validator(mode="after")
    def _check_rate(self) -> Self:
        if self.rate != 1.0 and self.mode != "realtime":
            raise ValueError("rate is for mode realtime")
        return self


class InitialEntrySpec(Section):
    """An entry that is there at the beginning.

    Attributes:
        key: of the entry.
        value: anything that JSON holds.
        position: where it is in the environment's space; none = nowhere.
    """

    key: Key
    value: JsonValue = None
    position: Position | None = None


class EachAgentSpec(Section):
    """An entry for each agent, whose key is the agent's id.

    Attributes:
        groups: only for agents of these groups of the population; none = of all.
        value: of each; or
        attribute: of the population, whose value is that of the entry.
        position: `random`: anywhere in the space, by the run's seed, in a grid with a capacity where there is room;
            `node`: on the agent's own node of the network; none = nowhere.
    """

    groups: Annotated[tuple[str, ...], Field(max_length=1_000)] = ()
    value: JsonValue = None
    attribute: str | None = None
    position: Literal["random", "node"] | None = None

    @model_validator(mode="after")
    def _check_value(self) -> Self:
        if self.attribute is not None and self.value is not None:
            raise ValueError("give value or attribute, not both")
        return self


class EnvironmentSpec(Section):
    """An environment. Those above it are made as well, if they are not named.

    Attributes:
        path: such as `/town/market`.
        kind: of the behaviour that gives it operations; none = a plain one.
        config: what the behaviour is told, as JSON.
        clock: a clock of its own.
        space: where its entries may be.
        entries: what stands in it at the beginning.
        each_agent: an entry for each agent.
    """

    path: EnvironmentPath
    kind: Kind | None = None
    config: dict[str, JsonValue] = Field(default_factory=dict)
    clock: ClockSpec | None = None
    space: SpaceSpec | None = None
    entries: Annotated[tuple[InitialEntrySpec, ...], Field(max_length=100_000)] = ()
    each_agent: EachAgentSpec | None = None

    @model_validator(mode="after")
    def _check_places(self) -> Self:
        keys = [entry.key for entry in self.entries]
        if len(set(keys)) < len(keys):
            raise ValueError("two entries have the same key")
        axes = 0 if self.space is None else self.space.axes
        placed = [entry.position for entry in self.entries if entry.position is not None]
        each = None if self.each_agent is None else self.each_agent.position
        if not axes and (placed or each):
            raise ValueError("positions need a space")
        if any(len(position) != axes for position in placed):
            raise ValueError(f"a position has {axes} coordinate{'s' if axes > 1 else ''} in this space")
        if each == "node" and (self.space is None or self.space.network is None):
            raise ValueError("position node needs a space that is a network")
        return self


class WorldSpec(Section):
    """What a world consists of.

    Attributes:
        name: of a world that others share, too; none = one of the run's own, with `--nodes` that of the nodes.
        behaviours: classes of one's own, as `module:Class`, installed or in the folder that the run is begun in; a
            server that is given by `--server` has to know them already.
        environments: in the order in which they are made. What is there already, in a world that is shared, stays.
    """

    name: WorldName | None = None
    behaviours: Annotated[tuple[ClassName, ...], Field(max_length=100)] = ()
    environments: Annotated[tuple[EnvironmentSpec, ...], Field(max_length=1_000)] = ()

    @model_validator(mode="after")
    def _check_paths(self) -> Self:
        paths = [environment.path for environment in self.environments]
        if twice := sorted({path for path in paths if paths.count(path) > 1}):
            raise ValueError(f"{twice[0]} stands there twice")
        return self

    def find(self, path: str) -> EnvironmentSpec | None:
        """The environment at a path, if it is named."""
        return next((environment for environment in self.environments if environment.path == path), None)

    def find_clock(self, path: str) -> EnvironmentSpec | None:
        """The environment by whose clock a path lives: itself, or the nearest one above that has one."""
        while path:
            found = self.find(path)
            if found is not None and found.clock is not None:
                return found
            path = path.rpartition("/")[0]
        return None


def _take_world(given: Any) -> Any:
    if not isinstance(given, str):
        return given
    if not re.fullmatch(_NAME, given):
        raise ValueError(f"must be 1 to 40 characters of a-z, 0-9 and -, the first no -, not {given!r}")
    return {"name": given}


def _allow_name(schema: dict[str, Any]) -> None:
    schema["anyOf"].insert(0, {"type": "string", "pattern": _NAME})


WorldField = Annotated[WorldSpec | None, BeforeValidator(_take_world), Field(json_schema_extra=_allow_name)]
"""What a world consists of, or its name alone."""
