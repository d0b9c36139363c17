"""Which node hosts which agents: groups are cut into parts, and each part goes where there is most room for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ecumene.client.runtime_model import NodeRecord, PartSpan
from ecumene.launch.errors import PlacementError

AGENTS_PER_PART_MIN = 25_000
"""A worker is not worth its start for fewer, where agents may share one."""
LOCAL_PROVIDERS = frozenset({"local", "vllm"})
"""Their models are loaded into the worker: once a node is enough."""


@dataclass(frozen=True, slots=True)
class GroupNeeds:
    """What a group asks of nodes.

    Attributes:
        rows: its agents.
        is_single: each agent has a process of its own.
        labels: a node must have them.
        providers: kinds of the providers of the models that it asks.
        parts: into how many it is cut; None = by the workers of the nodes that fit.
    """

    name: str
    rows: int
    is_single: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    providers: frozenset[str] = frozenset()
    parts: int | None = None


@dataclass(slots=True)
class NodeRoom:
    """A node, and what is left on it."""

    node: NodeRecord
    agents: int
    processes: int
    placed: int = 0

    def fits(self, group: GroupNeeds) -> bool:
        """Whether agents of a group may live there."""
        has_labels = all(self.node.labels.get(name) == value for name, value in group.labels.items())
        return has_labels and group.providers <= set(self.node.models)

    def has_room(self, group: GroupNeeds, rows: int) -> bool:
        """Whether there is room for so many more."""
        return self.agents >= rows and (not group.is_single or self.processes > 0)

    def take(self, group: GroupNeeds, rows: int) -> None:
        """They live there now."""
        self.agents -= rows
        self.placed += rows
        self.processes -= group.is_single


@dataclass(frozen=True, slots=True)
class Plan:
    """All parts of a run, and the names of those that each node hosts."""

    parts: tuple[PartSpan, ...]
    hosted: Mapping[str, tuple[str, ...]]


def plan_placement(groups: Sequence[GroupNeeds], rooms: Sequence[NodeRoom]) -> Plan:
    """Place every part on a node that fits and has room, the one with fewest agents a worker first.

    Raises:
        PlacementError: there is no such node for a part.
    """
    parts: list[PartSpan] = []
    hosted: dict[str, list[str]] = {}
    for group in groups:
        fitting = [room for room in rooms if room.fits(group)]
        if not fitting:
            raise PlacementError(f"group {group.name}: no node {describe_needs(group)}")
        for part in cut_group(group, sum(room.node.workers for room in fitting)):
            room = choose_room(fitting, group, len(part))
            room.take(group, len(part))
            parts.append(part)
            hosted.setdefault(room.node.name, []).append(part.name)
    return Plan(tuple(parts), {node: tuple(names) for node, names in hosted.items()})


def cut_group(group: GroupNeeds, workers: int) -> list[PartSpan]:
    """The parts of a group: every agent is in one, and shares differ by one agent at most."""
    if group.is_single:
        count = max(1, group.rows)
    elif group.providers & LOCAL_PROVIDERS:
        count = 1
    elif group.parts is not None:
        count = max(1, min(group.parts, group.rows))
    else:
        count = max(1, min(workers, group.rows // AGENTS_PER_PART_MIN))
    bounds = [group.rows * part // count for part in range(count + 1)]
    return [PartSpan(group.name, number, bounds[number], bounds[number + 1]) for number in range(count)]


def choose_room(rooms: Iterable[NodeRoom], group: GroupNeeds, rows: int) -> NodeRoom:
    """The node for one more part. Raises PlacementError."""
    able = [room for room in rooms if room.has_room(group, rows)]
    if not able:
        what = "process" if group.is_single else f"{rows:,} agents"
        raise PlacementError(f"group {group.name}: no node {describe_needs(group)} and has room for {what}")
    return min(able, key=lambda room: (room.placed / room.node.workers, room.node.name))


def describe_needs(group: GroupNeeds) -> str:
    """What a node must have, in words."""
    needs = [f"{name}={value}" for name, value in group.labels.items()]
    needs += [f"the provider {provider}" for provider in sorted(group.providers)]
    return f"has {', '.join(needs)}" if needs else "lives"
