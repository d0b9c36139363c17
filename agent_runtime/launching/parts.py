"""How the groups of a launch are cut into parts: one rule, whoever hosts them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from agent_runtime.model.errors import LaunchError
from agent_runtime.model.parts import Part, split_evenly
from agent_runtime.settings import GroupSpec, Launch

AGENTS_PER_PART_MIN = 25_000
"""A worker is not worth its start for fewer, where agents may share one."""
PARTS_MAX = 10_000


def plan_parts(launch: Launch, tables: Mapping[str, pa.Table], workers: int) -> tuple[Part, ...]:
    """Cut every group: every agent is in exactly one part, those of a group differ by one agent at most.

    `workers`: where the launch names no number of its own, what there are to host them.
    """
    parts: list[Part] = []
    for group in launch.groups:
        start = group.rows[0] if group.rows else 0
        rows = len(tables[group.name])
        parts += [
            Part(group=group.name, number=number, first=start + first, end=start + end)
            for number, (first, end) in enumerate(split_evenly(rows, count_parts(launch, group, rows, workers)))
        ]
    return tuple(parts)


def count_parts(launch: Launch, group: GroupSpec, rows: int, workers: int) -> int:
    """Into how many parts a group is cut; at least one, and none without agents as long as there are any."""
    if group.process == "agent":
        return max(1, rows)
    if launch.asks_local(group):
        return 1
    if group.parts is not None:
        return max(1, min(group.parts, rows))
    if launch.workers is not None:
        return max(1, min(launch.workers, rows))
    return max(1, min(workers, rows // AGENTS_PER_PART_MIN))


def check_parts(launch: Launch, tables: Mapping[str, pa.Table], parts: Sequence[Part]) -> None:
    """Raises LaunchError unless the parts of every group cover its agents, in order and without overlap."""
    if not parts:
        return
    if len(parts) > PARTS_MAX:
        raise LaunchError("parts", f"{len(parts)} parts, {PARTS_MAX} allowed")
    if stray := {part.group for part in parts} - tables.keys():
        raise LaunchError("parts", f"no group is called {min(stray)!r}")
    for group in launch.groups:
        row = 0
        for number, part in enumerate(sorted((p for p in parts if p.group == group.name), key=lambda p: p.number)):
            if part.number != number or part.first != row or part.end < part.first:
                raise LaunchError("parts", f"{part.name} does not begin where the part before it ends, at row {row}")
            row = part.end
        if row != len(tables[group.name]):
            problem = f"those of group {group.name} cover {row} of {len(tables[group.name])} agents"
            raise LaunchError("parts", problem)
