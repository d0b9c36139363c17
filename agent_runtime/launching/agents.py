"""The agents of a launch, checked as a whole: their ids, their classes, and what names them all."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import pyarrow as pa

from agent_runtime.agents.agent import GroupInfo, RuleAgents
from agent_runtime.agents.cohort import AGENT_ID, check_ids, open_agents
from agent_runtime.agents.making import check_group, make_rule_agents
from agent_runtime.agents.registry import AgentClass, find_agent_class
from agent_runtime.model.errors import LaunchError
from agent_runtime.settings import GroupSpec, Launch


def open_tables(launch: Launch) -> dict[str, pa.Table]:
    """The agents of each group, mapped. Raises LaunchError."""
    return {group.name: open_agents(group.agents, group.rows) for group in launch.groups}


def check_agents(launch: Launch, tables: Mapping[str, pa.Table]) -> None:
    """Raises LaunchError for what would fail in every worker, or only when agents are woken."""
    for group in launch.groups:
        table = tables[group.name]
        check_ids(group.agents, table)
        check_class(launch, group)
    if len(tables) > 1:
        check_distinct(list(tables.values()))


def check_class(launch: Launch, group: GroupSpec) -> AgentClass:
    """The class of a group. Raises LaunchError: it is not installed, or cannot live with the group's parameters."""
    agent_class = find_agent_class(group.agent, f"groups.{group.name}.agent")
    seed = launch.seed if group.seed is None else group.seed
    info = GroupInfo(group.name, group.parameters, seed)
    if issubclass(agent_class, RuleAgents):
        make_rule_agents(agent_class, info)
    else:
        check_group(agent_class, info)
    return agent_class


def check_distinct(tables: Sequence[pa.Table]) -> None:
    """Raises LaunchError if an id stands in two groups: it is the identity of one agent everywhere."""
    ids = pa.chunked_array([chunk for table in tables for chunk in table.column(AGENT_ID).chunks])
    counts = ids.value_counts().field("counts").to_numpy()
    if len(counts) and counts.max() > 1:
        twice = ids.value_counts().field("values")[int(counts.argmax())].as_py()
        raise LaunchError("groups", f"agent {twice!r} stands in two groups")


def digest_populations(launch: Launch) -> dict[str, str]:
    """Group -> what names its agents, all of them in their order. Raises LaunchError."""
    digests = {}
    for group in launch.groups:
        digest = hashlib.blake2b(digest_size=16)
        for batch in open_agents(group.agents, group.rows).select([AGENT_ID]).combine_chunks().to_batches():
            digest.update(batch.serialize())
        digests[group.name] = digest.hexdigest()
    return digests
