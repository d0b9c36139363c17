"""Checks a launch as a whole, and shares its agents out to workers."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence

import pyarrow as pa

from agent_runtime.agents.agent import GroupInfo, RuleAgents
from agent_runtime.agents.cohort import AGENT_ID, check_ids, open_agents
from agent_runtime.agents.registry import find_agent_class
from agent_runtime.model.errors import LaunchError
from agent_runtime.pipeline import check_group, make_rule_agents
from agent_runtime.settings import Launch, WorkerConfig

LOCAL_PROVIDERS = frozenset({"local", "vllm"})


def plan_workers(launch: Launch, server: str, world: str) -> list[WorkerConfig]:
    """What each worker is told. Every agent is in exactly one share, shares differ by one agent at most.

    Groups that ask a local model are all in the first worker: the model is loaded once a node.

    Raises LaunchError: a class is not installed, parameters do not fit, a file is wrong, an id is there twice.
    """
    tables = {group.name: open_agents(group.agents, group.rows) for group in launch.groups}
    check_agents(launch, tables)
    workers = launch.workers or os.cpu_count() or 1
    starts = {group.name: group.rows[0] if group.rows else 0 for group in launch.groups}
    shares: list[dict[str, tuple[int, int]]] = [{} for _ in range(workers)]
    for group in launch.groups:
        local = any(launch.models[model].provider in LOCAL_PROVIDERS for model in group.models())
        parts = 1 if local else workers
        for index, (first, end) in enumerate(split_evenly(len(tables[group.name]), parts)):
            shares[index][group.name] = (starts[group.name] + first, starts[group.name] + end)
    return [
        WorkerConfig(server=server, world=world, index=index, launch=launch, shares=share)
        for index, share in enumerate(shares)
    ]


def split_evenly(rows: int, parts: int) -> list[tuple[int, int]]:
    """Bounds of `parts` consecutive shares."""
    bounds = [rows * part // parts for part in range(parts + 1)]
    return list(itertools.pairwise(bounds))


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
