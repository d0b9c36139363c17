"""Checks a launch as a whole, cuts its groups into parts, and shares those out to workers."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence

import pyarrow as pa
from ecumene.client import ClientSettings, connect

from agent_runtime.agents.agent import GroupInfo, RuleAgents
from agent_runtime.agents.cohort import AGENT_ID, check_ids, open_agents
from agent_runtime.agents.registry import find_agent_class
from agent_runtime.hosted_part import check_group, make_rule_agents
from agent_runtime.model.errors import LaunchError
from agent_runtime.model.parts import Part, split_evenly
from agent_runtime.ownership.runs import open_run
from agent_runtime.settings import Launch, WorkerConfig

PROCESSES_MAX = 256
"""Worker processes for single agents, on one node."""


def plan_parts(launch: Launch) -> list[Part]:
    """The parts of a launch: every agent is in exactly one, those of a group differ by one agent at most.

    Raises LaunchError: a class is not installed, parameters do not fit, a file is wrong, an id is there twice.
    """
    tables = {group.name: open_agents(group.agents, group.rows) for group in launch.groups}
    check_agents(launch, tables)
    parts = []
    processes = 0
    for group in launch.groups:
        start = group.rows[0] if group.rows else 0
        rows = len(tables[group.name])
        single = group.process == "agent"
        processes += rows if single else 0
        if processes > PROCESSES_MAX:
            problem = f"{processes:,} agents, at most {PROCESSES_MAX} of a node can have a process of their own"
            raise LaunchError(f"groups.{group.name}.process", problem)
        count = rows if single else 1 if launch.asks_local(group) else group.parts or count_workers(launch)
        parts += [
            Part(group=group.name, number=number, first=start + first, end=start + end)
            for number, (first, end) in enumerate(split_evenly(rows, count))
            if end > first
        ]
    return parts


def plan_workers(launch: Launch, server: str, world: str, parts: Sequence[Part] | None = None) -> list[WorkerConfig]:
    """What each worker is told, of the launch's own parts or of those given: part n is the n-th worker's, in turn.

    Groups that ask a local model are all in the first worker: the model is loaded once a node. Agents that have
    processes of their own have them behind the others.

    Raises as `plan_parts` does.
    """
    workers = count_workers(launch)
    single = {group.name for group in launch.groups if group.process == "agent"}
    local = {group.name for group in launch.groups if launch.asks_local(group)}
    # With single agents only, nobody needs the workers that many share.
    shares: list[list[Part]] = [[] for _ in range(workers)] if len(single) < len(launch.groups) else []
    for part in plan_parts(launch) if parts is None else parts:
        if part.group in single:
            shares.append([part])
        else:
            shares[0 if part.group in local else part.number % workers].append(part)
    return [
        WorkerConfig(server=server, world=world, index=index, launch=launch, parts=tuple(share))
        for index, share in enumerate(shares)
    ]


async def begin_launch(launch: Launch, server: str, world: str, parts: Sequence[Part]) -> list[Part]:
    """Begin the launch's run in its world, or go on with it; returns the parts that it has there.

    Raises LaunchError (see `open_run`), EcumeneError.
    """
    settings = ClientSettings(reconnect_timeout_s=launch.worker.reconnect_timeout_s)
    async with connect(server, world, timeout_s=launch.worker.connect_timeout_s, settings=settings) as opened:
        return await open_run(opened, launch, parts, digest_populations(launch))


def digest_populations(launch: Launch) -> dict[str, str]:
    """Group -> what names its agents, all of them in their order. Raises LaunchError."""
    digests = {}
    for group in launch.groups:
        digest = hashlib.blake2b(digest_size=16)
        for batch in open_agents(group.agents, group.rows).select([AGENT_ID]).combine_chunks().to_batches():
            digest.update(batch.serialize())
        digests[group.name] = digest.hexdigest()
    return digests


def count_workers(launch: Launch) -> int:
    """Processes of the launch on this node."""
    return launch.workers or os.cpu_count() or 1


def check_agents(launch: Launch, tables: dict[str, pa.Table]) -> None:
    """Raises LaunchError for what would fail in every worker, or only when agents are woken."""
    for group in launch.groups:
        table = tables[group.name]
        check_ids(group.agents, table)
        agent_class = find_agent_class(group.agent, f"groups.{group.name}.agent")
        seed = launch.seed if group.seed is None else group.seed
        info = GroupInfo(group.name, group.parameters, seed)
        if issubclass(agent_class, RuleAgents):
            make_rule_agents(agent_class, info)
        else:
            check_group(agent_class, info)
    if len(tables) > 1:
        check_distinct(list(tables.values()))


def check_distinct(tables: Sequence[pa.Table]) -> None:
    """Raises LaunchError if an id stands in two groups: it is the identity of one agent everywhere."""
    ids = pa.chunked_array([chunk for table in tables for chunk in table.column(AGENT_ID).chunks])
    counts = ids.value_counts().field("counts").to_numpy()
    if len(counts) and counts.max() > 1:
        twice = ids.value_counts().field("values")[int(counts.argmax())].as_py()
        raise LaunchError("groups", f"agent {twice!r} stands in two groups")
