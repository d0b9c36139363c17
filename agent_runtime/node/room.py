"""What a node has room for: agents, processes of single agents, and what groups ask of a node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from agent_runtime.model.errors import LaunchError
from agent_runtime.model.parts import Part
from agent_runtime.model.refusals import NodeError, Refusal
from agent_runtime.node.hosting import HostedRun
from agent_runtime.node.launches import fill_paths, refuse_launch
from agent_runtime.node.records import Description
from agent_runtime.node.settings import NodeSettings
from agent_runtime.settings import GroupSpec, Launch


class Room:
    """That of one node. `runs`: what it hosts, as it changes."""

    def __init__(self, settings: NodeSettings, runs: Mapping[str, HostedRun]) -> None:
        self._settings = settings
        self._runs = runs

    @property
    def agents(self) -> int:
        """Agents that are hosted."""
        return sum(run.agents for run in self._runs.values())

    @property
    def processes(self) -> int:
        """Workers that host one agent each."""
        return sum(run.processes for run in self._runs.values())

    def fits(self, description: Description, part: Part, beside: list[Part]) -> bool:
        """Whether there is room for a part beside others that are about to come, and what its group needs."""
        try:
            launch = fill_paths(description.document, {})
        except NodeError:
            return False
        group = next(one for one in launch.groups if one.name == part.group)
        single = group.process == "agent"
        has_process = not single or self.processes + len(beside) < self._settings.processes_max
        agents = self.agents + count_agents((*beside, part))
        return not self._find_missing(group) and has_process and agents <= self._settings.capacity

    def check(self, run: str, launch: Launch, wanted: Iterable[Part]) -> None:
        """Raises NodeError: more than the node hosts (CAPACITY_EXCEEDED), or not what a group needs."""
        hosting = self._runs.get(run)
        fresh = [part for part in wanted if hosting is None or part.name not in hosting.parts]
        agents = self.agents + count_agents(fresh)
        if agents > self._settings.capacity:
            raise refuse_room("capacity", self._settings.capacity, agents)
        single = {group.name for group in launch.groups if group.process == "agent"}
        processes = self.processes + sum(part.group in single for part in fresh)
        if processes > self._settings.processes_max:
            raise refuse_room("processes_max", self._settings.processes_max, processes)
        for group in launch.groups:
            missing = self._find_missing(group)
            if missing and any(part.group == group.name for part in fresh):
                text = ", ".join(f"{name}={value}" for name, value in missing.items())
                raise refuse_launch(LaunchError(f"groups.{group.name}.node_labels", f"this node has not {text}"))

    def _find_missing(self, group: GroupSpec) -> dict[str, str]:
        """Labels that a group needs and this node has not."""
        labels = self._settings.labels
        return {name: value for name, value in group.node_labels.items() if labels.get(name) != value}


def count_agents(parts: Iterable[Part]) -> int:
    """Agents of parts."""
    return sum(part.end - part.first for part in parts)


def refuse_room(limit: str, maximum: int, actual: int) -> NodeError:
    """More than the node hosts."""
    message = f"{actual:,} exceed the node's {limit} = {maximum:,}"
    return NodeError(Refusal.CAPACITY_EXCEEDED, message, limit=limit, max=str(maximum), actual=str(actual))
