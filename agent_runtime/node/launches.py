"""From what a launch says to what can be hosted: description, populations and parts, checked as a whole."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa

from agent_runtime.agents.cohort import check_ids, open_agents
from agent_runtime.agents.registry import describe_failure
from agent_runtime.launching.agents import check_agents
from agent_runtime.launching.parts import check_parts
from agent_runtime.model.errors import LaunchError
from agent_runtime.model.json_texts import read_json
from agent_runtime.model.parts import Part
from agent_runtime.model.refusals import NodeError, Refusal, refuse_limit
from agent_runtime.settings import GroupSpec, Launch, parse_launch

NOT_YET = "population"
"""Stands for the file of a group whose agents come in chunks, until it is written."""


@dataclass(frozen=True, slots=True)
class Ready:
    """A launch that can be hosted: paths filled in, agents mapped."""

    launch: Launch
    tables: Mapping[str, pa.Table]


def parse_description(data: bytes, bytes_max: int) -> dict[str, Any]:
    """A launch description without populations, as plain data; the same text whoever sends it.

    Raises:
        NodeError: it is too large (LIMIT_EXCEEDED), or no description of a launch (LAUNCH_REFUSED).
    """
    if len(data) > bytes_max:
        raise refuse_limit("description_bytes_max", bytes_max, len(data))
    try:
        document = read_json(data)
    except ValueError:
        raise refuse_launch(LaunchError("description_json", "is no JSON")) from None
    if not isinstance(document, dict):
        raise refuse_launch(LaunchError("description_json", "is no JSON object"))
    fill_paths(document, {})
    return document


def fill_paths(document: Mapping[str, Any], files: Mapping[str, Path]) -> Launch:
    """The description as a launch, with the files of groups whose agents came in chunks.

    Raises:
        NodeError: LAUNCH_REFUSED.
    """
    groups = document.get("groups")
    filled = []
    for group in groups if isinstance(groups, list) else []:
        if isinstance(group, dict) and not group.get("agents"):
            filled.append({**group, "agents": str(files.get(str(group.get("name")), NOT_YET))})
        else:
            filled.append(group)
    try:
        launch = parse_launch({**document, "groups": filled})
        for group in launch.groups:
            if str(group.agents) != NOT_YET and not group.agents.is_absolute():
                problem = "must be an absolute path that all nodes share, or be left out for agents that are sent"
                raise LaunchError(f"groups.{group.name}.agents", problem)
            if group.rows is not None:
                raise LaunchError(
                    f"groups.{group.name}.rows", "is not for nodes: parts say which rows are hosted where"
                )
    except LaunchError as error:
        raise refuse_launch(error) from None
    return launch


def open_launch(launch: Launch, parts: Sequence[Part]) -> Ready:
    """Map the agents, and check everything that would fail in every worker. Blocks. Raises LaunchError."""
    for group in launch.groups:
        check_provider(launch, group)
    tables = {group.name: open_population(group) for group in launch.groups}
    check_agents(launch, tables)
    check_parts(launch, tables, parts)
    return Ready(launch, tables)


def open_population(group: GroupSpec) -> pa.Table:
    """The agents of a group, mapped and checked. Raises LaunchError, which names no file of our own."""
    where = f"groups.{group.name}.agents"
    try:
        table = open_agents(group.agents)
    except LaunchError as error:
        if error.__cause__ is None:
            raise LaunchError(where, error.problem) from None
        problem = f"no Arrow file can be read at {group.agents} on this node: all nodes of a run must see it there"
        raise LaunchError(where, problem) from None
    try:
        check_ids(group.agents, table)
    except LaunchError as error:
        raise LaunchError(where, error.problem) from None
    return table


def check_provider(launch: Launch, group: GroupSpec) -> None:
    """Raises LaunchError if a group asks a model that cannot be opened on this node."""
    for name in sorted(group.models()):
        if (provider := launch.models[name].provider) not in list_providers():
            raise LaunchError(f"models.{name}.provider", f"{provider} is not installed on this node")


def list_providers() -> list[str]:
    """Kinds of providers of models that can be opened on this node."""
    extras = {"local": "xllamacpp", "vllm": "vllm"}
    installed = [name for name, module in extras.items() if importlib.util.find_spec(module) is not None]
    return sorted(["openai", "replay", "scripted", *installed])


def refuse_launch(error: LaunchError, *, tells_causes: bool = False) -> NodeError:
    """What of a launch cannot be run here. What a module said that could not be imported stays here, unless told."""
    message, cause = str(error), error.__cause__
    if not tells_causes and cause is not None and (error.where.endswith(".agent") or isinstance(cause, OSError)):
        for said in (describe_failure(cause), str(cause)):
            message = message.replace(" ".join(said.split()) or "\0", _describe_missing(cause, message))
    return NodeError(Refusal.LAUNCH_REFUSED, message, where=error.where)


def _describe_missing(cause: BaseException, asked: str) -> str:
    """Why something cannot be loaded, with no more than whoever asked for it knows."""
    if isinstance(cause, ModuleNotFoundError) and re.search(rf"'{re.escape(cause.name or ' ')}[.:]", asked):
        return f"this node has no module {cause.name}: install it there, or start the node with PYTHONPATH=FOLDER"
    if isinstance(cause, AttributeError) and isinstance(module := cause.obj, ModuleType):
        name = module.__name__
        if f"'{name}:{cause.name}'" in asked:
            return f"this node's module {name} has no {cause.name}"
    return "it cannot be loaded on this node"
