"""What the workers of one launch are told, when nobody else hosts any of it."""

from __future__ import annotations

import os
from collections.abc import Sequence

from agent_runtime.launching.agents import check_agents, open_tables
from agent_runtime.launching.parts import plan_parts
from agent_runtime.model.errors import LaunchError
from agent_runtime.model.parts import Part
from agent_runtime.settings import Launch, WorkerConfig

PROCESSES_MAX = 256
"""Worker processes for single agents, on one node."""


def plan_launch(launch: Launch) -> tuple[Part, ...]:
    """The parts of a launch that can be hosted here as a whole.

    Raises LaunchError: a class is not installed, parameters do not fit, a file is wrong, an id is there twice, too many
    agents want a process of their own.
    """
    tables = open_tables(launch)
    check_agents(launch, tables)
    processes = 0
    for group in launch.groups:
        processes += len(tables[group.name]) if group.process == "agent" else 0
        if processes > PROCESSES_MAX:
            problem = f"{processes:,} agents, at most {PROCESSES_MAX} of a node can have a process of their own"
            raise LaunchError(f"groups.{group.name}.process", problem)
    return plan_parts(launch, tables, count_workers(launch))


def plan_workers(launch: Launch, server: str, world: str, parts: Sequence[Part]) -> list[WorkerConfig]:
    """What each worker is told of the launch's parts: part n is the n-th worker's, in turn.

    Groups that ask a local model are all in the first worker: the model is loaded once a node. Agents that have
    processes of their own have them behind the others.
    """
    workers = count_workers(launch)
    single = {group.name for group in launch.groups if group.process == "agent"}
    local = {group.name for group in launch.groups if launch.asks_local(group)}
    # With single agents only, nobody needs the workers that many share.
    shares: list[list[Part]] = [[] for _ in range(workers)] if len(single) < len(launch.groups) else []
    for part in parts:
        if part.group in single:
            shares.append([part])
        else:
            shares[0 if part.group in local else part.number % workers].append(part)
    return [
        WorkerConfig(server=server, world=world, index=index, launch=launch, parts=tuple(share))
        for index, share in enumerate(shares)
    ]


def count_workers(launch: Launch) -> int:
    """Processes of the launch on this node."""
    return launch.workers or os.cpu_count() or 1
