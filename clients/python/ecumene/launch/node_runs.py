"""Runs over all nodes of a world: launched where there is room, stopped, cleaned up.

async with connect(server) as world:
    await launch_run(world, document, {"miners": GroupAgents(1_000_000, stream=chunks)})
    ...
    await stop_run(world, "monday")
    await clean_up_run(world, "monday")
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, TypeVar

from ecumene.client.errors import ConnectionFailedError, EcumeneError, InvalidArgumentError
from ecumene.client.reasons import EnvironmentNotFoundError
from ecumene.client.runtime_errors import AgentNotFoundError, RunNotFoundError
from ecumene.client.runtime_model import (
    Launched,
    NodeInfo,
    NodeRecord,
    PartInfo,
)
from ecumene.client.runtime_nodes import RuntimeNode
from ecumene.client.runtime_readings import read_record
from ecumene.client.world import World
from ecumene.launch.errors import PlacementError
from ecumene.launch.placement import GroupNeeds, NodeRoom, plan_placement

NODES_PATH = "/runtime/nodes"
RUNS_PATH = "/runtime/runs"
KEPT_ASKED_S = 0.05
POPULATION_BYTES_MAX = 64 * 1024 * 1024

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class GroupAgents:
    """The agents of a group: how many, and an Arrow IPC stream of them, or "" in it and a path that all nodes share.

    The path stands in the description then, as the group's `agents`.
    """

    rows: int
    stream: bytes = b""


async def list_nodes(world: World) -> list[NodeRecord]:
    """The living nodes of a world, by name."""
    try:
        entries = [entry async for entry in world.environment(NODES_PATH).entries()]
    except EnvironmentNotFoundError:
        return []
    found = (read_record(entry.key, entry.value) for entry in entries)
    return [record for record in found if record is not None]


async def inspect_nodes(world: World, *, brief: bool = False) -> list[NodeInfo]:
    """How the living nodes are; one that cannot be reached is left out."""
    return [info for info in await ask_each(world, lambda node: node.inspect(brief=brief)) if info is not None]


async def launch_run(world: World, document: Mapping[str, Any], agents: Mapping[str, GroupAgents]) -> list[Launched]:
    """Launch a run over the nodes of its world, a new one as a whole or not at all; what each of them hosts.

    `document`: the launch description; its groups name no `agents`, or a path that all nodes share.

    Raises:
        PlacementError: there is no room, or no node with what a group needs.
        LaunchRefusedError, RunExistsError: the description cannot be run.
        EcumeneError: a node or the world refused, or cannot be reached.
    """
    run = str(document.get("run", ""))
    size_bytes = sum(len(one.stream) for one in agents.values())
    if size_bytes > POPULATION_BYTES_MAX:
        problem = (
            f"the agents take {size_bytes:,} bytes, {POPULATION_BYTES_MAX:,} can be sent: put them into files that"
        )
        raise PlacementError(f"{problem} are there under the same path on every node, and name it in the description")
    infos = [info for info in await inspect_nodes(world, brief=True) if not info.is_draining]
    if not infos:
        raise PlacementError(f"no node lives in world {world.name}: start one with ecumene runtime")
    rooms = [make_room(info) for info in infos]
    plan = plan_placement(read_needs(document, agents), rooms)
    addresses = {info.name: info.address for info in infos}
    described = json.dumps(document, ensure_ascii=False).encode()
    streams = {name: one.stream for name, one in agents.items() if one.stream}
    names = list(plan.hosted)

    async def launch(name: str) -> Launched:
        async with RuntimeNode(addresses[name]) as node:
            if name == names[0]:
                return await node.launch(described, streams, parts=plan.parts, hosted=plan.hosted[name])
            return await node.launch(described, parts=plan.parts, hosted=plan.hosted[name])

    was_kept = await _is_kept(world, run)
    first = asyncio.create_task(launch(names[0]), name=f"launch {run} on {names[0]}")
    try:
        # The first node keeps everything in the world; the others find it there.
        await _wait_kept(world, run, first)
        return list(await asyncio.gather(first, *(launch(name) for name in names[1:])))
    except BaseException:
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        if not was_kept:
            await _forget(world, run)
        raise


async def stop_run(world: World, run: str, *, drain_s: float = 0.0) -> list[PartInfo]:
    """End a run on all nodes, for good; the parts that were ended.

    Raises:
        RunNotFoundError: no node knows of it.
    """
    answers = await ask_each(world, lambda node: node.stop(run, drain_s=drain_s), absent=RunNotFoundError)
    if not any(answer is not None for answer in answers):
        raise RunNotFoundError(f"no node of world {world.name} knows of a run {run!r}")
    return [part for answer in answers if answer is not None for part in answer]


async def clean_up_run(world: World, run: str) -> bool:
    """Delete what the world and the nodes keep of a run; returns whether there was something.

    Raises:
        RunActiveError: parts of it are still hosted.
        PlacementError: no node lives that could do it.
    """
    answers = [answer for answer in await ask_each(world, lambda node: node.clean_up(run)) if answer is not None]
    if not answers:
        raise PlacementError(f"no node lives in world {world.name}: start one with ecumene runtime")
    return any(answers)


async def use_host(
    world: World, run: str, use: Callable[[RuntimeNode], Awaitable[Answer]], *, agent: str = ""
) -> Answer:
    """Use the node that hosts an agent, or with "" the first that hosts the run.

    Raises:
        AgentNotFoundError: it lives on none.
        RunNotFoundError: no node hosts the run.
        ConnectionFailedError: not on those that answered, and one did not.
    """
    missed: EcumeneError = RunNotFoundError(f"no node of world {world.name} hosts a run {run!r}")
    unreached: EcumeneError | None = None
    for record in await list_nodes(world):
        async with RuntimeNode(record.address) as node:
            try:
                return await use(node)
            except AgentNotFoundError:
                missed = AgentNotFoundError(f"no agent {agent!r} of run {run!r} lives on any node")
            except RunNotFoundError:
                continue
            except ConnectionFailedError as error:
                unreached = error
    raise unreached or missed


def read_needs(document: Mapping[str, Any], agents: Mapping[str, GroupAgents]) -> list[GroupNeeds]:
    """What the groups of a description ask of nodes. Raises PlacementError: a group has no agents."""
    needs = []
    models = document.get("models") or {}
    for group in document.get("groups") or ():
        name = str(group.get("name", ""))
        if name not in agents:
            raise PlacementError(f"group {name}: no agents were given")
        needs.append(
            GroupNeeds(
                name=name,
                rows=agents[name].rows,
                is_single=group.get("process") == "agent",
                labels=dict(group.get("node_labels") or {}),
                providers=_list_providers(group.get("model"), models),
                parts=group.get("parts"),
            )
        )
    return needs


def _list_providers(choice: Any, models: Mapping[str, Any]) -> frozenset[str]:
    """Kinds of the providers of a group's model, or of the models of its mix; what is none is the node's to refuse."""
    names: set[Any] = {choice} if isinstance(choice, str) else set()
    if isinstance(choice, Mapping):
        named = (choice.get("weights"), choice.get("assigned"))
        weights, assigned = (one if isinstance(one, Mapping) else {} for one in named)
        names = {*weights, *(one for one in (*assigned.values(), choice.get("otherwise")) if isinstance(one, str))}
    known = [models[name] for name in names if isinstance(models.get(name), Mapping)]
    return frozenset(str(model["provider"]) for model in known if model.get("provider"))


def make_room(info: NodeInfo) -> NodeRoom:
    """What is left on a node."""
    record = NodeRecord(info.name, info.address, info.labels, info.capacity, info.providers, "", max(1, info.workers))
    singles = sum(len(part.span) == 1 and part.worker >= SINGLE_FROM for run in info.runs for part in run.parts)
    return NodeRoom(record, info.capacity - info.agents, info.processes_max - singles)


SINGLE_FROM = 1000
"""Indices of workers that host one agent each."""


async def _wait_kept(world: World, run: str, first: asyncio.Task[Launched]) -> None:
    """Until the description stands in the world, or the first launch has ended."""
    while not first.done() and not await _is_kept(world, run):
        await asyncio.wait({first}, timeout=KEPT_ASKED_S)


async def _is_kept(world: World, run: str) -> bool:
    """Whether a run stands in the world as a whole."""
    try:
        return (await world.environment(f"{RUNS_PATH}/{run}").describe()).labels.get("complete") == "yes"
    except (EnvironmentNotFoundError, InvalidArgumentError):
        return False


async def _forget(world: World, run: str) -> None:
    """Take back what was launched of a run; what cannot be reached now is left to whoever cleans up."""
    for what in (stop_run, clean_up_run):
        try:
            await what(world, run)
        except EcumeneError:
            pass


async def ask_each(
    world: World,
    ask: Callable[[RuntimeNode], Awaitable[Answer]],
    absent: type[EcumeneError] = ConnectionFailedError,
    *,
    needs_all: bool = False,
) -> list[Answer | None]:
    """What each node answers; None for one that cannot be reached, or fails with `absent`.

    Raises ConnectionFailedError with `needs_all`: one cannot be reached.
    """

    async def ask_one(node: RuntimeNode) -> Answer | None:
        try:
            return await ask(node)
        except absent:
            return None
        except ConnectionFailedError:
            if needs_all:
                raise
            return None

    async with AsyncExitStack() as stack:
        nodes = [await stack.enter_async_context(RuntimeNode(one.address)) for one in await list_nodes(world)]
        answers = await asyncio.gather(*map(ask_one, nodes), return_exceptions=True)
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
    return [answer for answer in answers if not isinstance(answer, BaseException)]
