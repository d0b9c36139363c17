"""A node: what it hosts, what it knows of itself, and its life in the world."""

from __future__ import annotations

import asyncio
import importlib.metadata
import platform
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from ecumene.client import ClientSettings, EcumeneError, EnvironmentExistsError, World, connect

from agent_runtime.model.clock import Clock
from agent_runtime.model.errors import LaunchError
from agent_runtime.model.owned_tasks import OwnedTasks
from agent_runtime.model.parts import Part
from agent_runtime.model.refusals import NodeError, Refusal, refuse_run
from agent_runtime.node.hosting import HostedRun
from agent_runtime.node.launches import (
    Ready,
    fill_paths,
    list_providers,
    open_launch,
    parse_description,
    plan_parts,
    refuse_launch,
)
from agent_runtime.node.logs import NodeLog
from agent_runtime.node.membership import Membership
from agent_runtime.node.populations import Arriving, claim_folder, fetch_chunks, remove_folder, run_folder, write_files
from agent_runtime.node.records import Description, Population, Records
from agent_runtime.node.rights import confine
from agent_runtime.node.run_locks import RunLocks
from agent_runtime.node.run_names import check_run_name
from agent_runtime.node.seats import Seats
from agent_runtime.node.settings import NodeSettings
from agent_runtime.node.slots import Condition, PartState
from agent_runtime.node.takeover import Takeover

PACKAGES = ("ecumene", "grpcio", "protobuf", "pyarrow", "numpy")


class Node:
    """Hosts parts of runs. Made by `open_node`; `address` is set when it listens."""

    def __init__(self, settings: NodeSettings, world: World, log: NodeLog, clock: Clock) -> None:
        self.settings = settings
        self.world = world
        self.log = log
        self.clock = clock
        self.address = ""
        self.is_draining = False
        self.records = Records(world)
        self.runs: dict[str, HostedRun] = {}
        self.seats = Seats()
        self.tasks = OwnedTasks()
        """Whatever fails here for good ends the node."""
        self.membership = Membership(world, settings, self.describe, log)
        self._takeover = Takeover(world, self.records, settings, self, log, clock)
        self._locks = RunLocks()
        self._has_scratch = False
        self._versions = find_versions()

    @property
    def agents(self) -> int:
        """Agents that it hosts."""
        return sum(run.agents for run in self.runs.values())

    @property
    def processes(self) -> int:
        """Its workers that host one agent each."""
        return sum(run.processes for run in self.runs.values())

    @property
    def versions(self) -> Mapping[str, str]:
        """Of Ecumene and of what it runs on."""
        return self._versions

    def describe(self) -> dict[str, Any]:
        """What the other nodes and those who place parts are told of it."""
        return {
            "labels": dict(self.settings.labels),
            "capacity": self.settings.capacity,
            "models": list_providers(),
            "address": self.address,
            "version": self._versions.get("ecumene", ""),
            "workers": self.settings.workers,
            "processes": self.settings.processes_max,
        }

    async def begin(self) -> None:
        """Join, and look after parts from now on. Raises NameTakenError, EcumeneError, OSError (see `claim_folder`)."""
        await self.records.prepare()
        await self.membership.join()
        await asyncio.to_thread(claim_folder, self.settings.scratch)
        self._has_scratch = True
        self.tasks.start(self.membership.stay(), "membership")
        self.tasks.start(self._takeover.watch(), "watch parts")
        self.tasks.start(self._takeover.watch_nodes(), "watch nodes")
        self.tasks.start(self._takeover.run(), "takeover")

    async def end(self) -> None:
        """Give back what is hosted, so that other nodes go on with it, and leave."""
        self.is_draining = True
        await self.tasks.cancel_all()
        try:
            # A world that is gone would be waited for; without a word from here parts go with the leases.
            async with asyncio.timeout(self.settings.stop_grace_s):
                for run in self.runs.values():
                    await self.records.hand_over(run.run, list(run.parts), self.settings.name, refused=False)
        except (EcumeneError, TimeoutError) as error:
            self.log.write(f"parts were not handed over: {error or 'the world does not answer'}")
        await asyncio.gather(*(run.stop() for run in self.runs.values()))
        try:
            await self.membership.leave()
        except EcumeneError as error:
            self.log.write(f"did not leave in order: {error}")
        if self._has_scratch:
            await asyncio.to_thread(remove_folder, self.settings.scratch)

    async def launch(
        self, description_json: bytes, parts: tuple[Part, ...], hosted: Iterable[str], arriving: Arriving
    ) -> list[PartState]:
        """Host parts of a run, and keep it in the world if it is new; returns the parts that are here then.

        Raises:
            NodeError: LAUNCH_REFUSED, RUN_EXISTS, CAPACITY_EXCEEDED, DRAINING.
            EcumeneError: the world refused, or cannot be reached.
        """
        self._check_open()
        document = parse_description(description_json, self.settings.description_bytes_max)
        run = str(document["run"])
        async with self._locks.hold(run):
            self._check_open()
            description, ready = await self._describe_launch(run, document, parts, arriving)
            wanted = choose_parts(description, list(hosted))
            self._check_room(description, ready, wanted)
            try:
                await self.records.write(description, arriving.chunks)
            except EnvironmentExistsError:
                raise refuse_other(run) from None
            await self.records.place(run, [part.name for part in wanted], self.settings.name)
            hosting = await self._host_run(description, ready)
            states = await hosting.host(wanted)
        self._raise_refused(states)
        return states

    async def stop(self, run: str, drain_s: float) -> list[PartState]:
        """End the parts of a run here, and those that nobody sees to, for good. Raises NodeError, EcumeneError."""
        check_run_name(run)
        async with self._locks.hold(run):  # what is about to be hosted is here by then
            description = await self.records.read(run)
            hosting = self.runs.get(run)
            if description is None and hosting is None:
                raise refuse_run(run)
            here = list(hosting.parts) if hosting is not None else []
            await self.records.end(run, sorted({*here, *await self._list_unseen(run)}), self.settings.name, "stopped")
            if hosting is None:
                return []
            return await hosting.drop(here, drain_s, Condition.STOPPED, "stopped")

    async def drain(self, drain_s: float) -> list[PartState]:
        """Take no more parts, and hand over those that are here. Raises EcumeneError."""
        self.is_draining = True
        given: list[PartState] = []
        for name in sorted({*self.runs, *self._locks.names}):
            async with self._locks.hold(name):  # what is about to be hosted is here by then
                if (run := self.runs.get(name)) is None:
                    continue
                names = list(run.parts)
                # First, so that whoever sees a part go may take it at once.
                await self.records.hand_over(run.run, names, self.settings.name, refused=False)
                given += await run.drop(names, drain_s, Condition.HANDED_OVER, "the node was drained")
        return given

    async def clean_up(self, run: str) -> bool:
        """Delete what is kept of a run; returns whether there was something.

        Raises:
            NodeError: RUN_ACTIVE.
            EcumeneError: the world refused, or cannot be reached.
        """
        check_run_name(run)
        async with self._locks.hold(run):
            hosting = self.runs.get(run)
            if (hosting is not None and hosting.parts) or await self.records.list_owned(run):
                placed = await self.records.list_placed(run)
                nodes = ", ".join(sorted({one.node for one in placed.values() if one.node}))
                raise NodeError(Refusal.RUN_ACTIVE, f"run {run!r} is hosted: stop it first", run=run, nodes=nodes)
            if hosting is not None:
                del self.runs[run]
                await hosting.stop()
            existed = await self.records.delete(run)
            await asyncio.to_thread(remove_folder, run_folder(self.settings.scratch, run))
        return existed

    def find_run(self, run: str) -> HostedRun:
        """A run that has parts here. Raises NodeError."""
        hosting = self.runs.get(run)
        if hosting is None:
            raise refuse_run(run)
        return hosting

    def has(self, run: str, part: str) -> bool:
        """Whether a part is here, or is about to be."""
        hosting = self.runs.get(run)
        return (hosting is not None and part in hosting.parts) or self._locks.is_held(run)

    def fits(self, description: Description, part: Part, beside: list[Part]) -> bool:
        """Whether there is room for a part beside others that are about to come, and what its group needs."""
        if self.is_draining or not self.membership.is_certain:
            return False
        try:
            launch = confine(fill_paths(description.document, {}), self.settings)
        except (NodeError, LaunchError):
            return False
        group = next((one for one in launch.groups if one.name == part.group), None)
        if group is None:
            return False
        labels = self.settings.labels
        has_labels = all(labels.get(name) == value for name, value in group.node_labels.items())
        single = group.process == "agent"
        has_process = not single or self.processes + len(beside) < self.settings.processes_max
        agents = self.agents + sum(one.end - one.first for one in (*beside, part))
        return has_labels and has_process and agents <= self.settings.capacity

    async def take(self, description: Description, parts: list[Part]) -> None:
        """Host parts that are placed here, from what the world keeps. Raises NodeError, EcumeneError."""
        async with self._locks.hold(description.run):
            self._check_open()
            if (hosting := self.runs.get(description.run)) is None:
                ready = await self._prepare(description, await fetch_chunks(self.records, description))
                hosting = await self._host_run(description, ready)
            states = await hosting.host(parts)
        self._raise_refused(states)

    def check_silent(self, run: str, part: str) -> None:
        """The entry of a part is gone."""
        if (hosting := self.runs.get(run)) is not None:
            hosting.check_silent(part)

    async def _describe_launch(
        self, run: str, document: dict[str, Any], parts: tuple[Part, ...], arriving: Arriving
    ) -> tuple[Description, Ready]:
        """The run as it was launched before, or as it is launched now."""
        launch = fill_paths(document, {})
        arriving.check_groups([g.name for g in launch.groups if not g.agents.is_absolute()])
        known = await self.records.read(run)
        if known is not None:
            fresh = Description(run, document, parts, {})
            if known.spec_hash != fresh.spec_hash or (parts and parts != known.parts):
                raise refuse_other(run)
            # What is hosted is what the world keeps: other nodes have it, and workers map the file.
            chunks = await fetch_chunks(self.records, known)
            if not arriving.is_of(chunks):
                raise refuse_other(run)
            arriving.chunks = {}
            return known, await self._prepare(known, chunks)
        missing = [g.name for g in launch.groups if not g.agents.is_absolute() and g.name not in arriving.chunks]
        if missing:
            problem = "no agents were sent, none are kept in the world, and no file of them is named"
            raise refuse_launch(LaunchError(f"groups.{missing[0]}.agents", problem))
        populations = {
            g.name: Population(path=str(g.agents)) if g.agents.is_absolute() else arriving.describe(g.name)
            for g in launch.groups
        }
        described = Description(run, document, parts, populations)
        ready = await self._prepare(described, arriving.chunks)
        if not parts:
            planned = plan_parts(ready.launch, ready.tables, self.settings.workers)
            described = Description(run, document, planned, populations)
        return described, ready

    async def _prepare(self, description: Description, chunks: Mapping[str, list[bytes]]) -> Ready:
        """Write the files of a run, and check it. Raises NodeError."""
        try:
            # Before anything is written: what it may not have is refused as it is.
            confine(fill_paths(description.document, {}), self.settings)
            folder = run_folder(self.settings.scratch, description.run)
            files = await asyncio.to_thread(write_files, folder, chunks)
            launch = confine(fill_paths(description.document, files), self.settings)
        except LaunchError as error:
            raise refuse_launch(error) from None
        launch = launch.model_copy(update={"node": self.settings.name})
        return await asyncio.to_thread(open_launch, launch, description.parts)

    async def _host_run(self, description: Description, ready: Ready) -> HostedRun:
        run = description.run
        before = self.runs.get(run)
        if before is None or not before.parts:
            # What is known of an earlier life of the name may be of other agents: another node has cleaned up.
            if before is not None:
                await before.stop()  # its workers record under the same names
            self.runs[run] = HostedRun(
                description,
                ready.launch,
                ready.tables,
                self.settings,
                self.records,
                self.log,
                self.clock,
                self.seats.tell,
            )
        return self.runs[run]

    def _check_open(self) -> None:
        if self.is_draining:
            raise NodeError(Refusal.DRAINING, "the node takes no more parts", retry_delay_ms=1000)

    def _check_room(self, description: Description, ready: Ready, wanted: list[Part]) -> None:
        """Raises NodeError: more agents, or processes of single agents, than the node hosts."""
        hosting = self.runs.get(description.run)
        fresh = [part for part in wanted if hosting is None or part.name not in hosting.parts]
        agents = self.agents + sum(part.end - part.first for part in fresh)
        if agents > self.settings.capacity:
            raise refuse_room("capacity", self.settings.capacity, agents)
        single = {group.name for group in ready.launch.groups if group.process == "agent"}
        processes = self.processes + sum(part.group in single for part in fresh)
        if processes > self.settings.processes_max:
            raise refuse_room("processes_max", self.settings.processes_max, processes)
        labels = self.settings.labels
        for group in ready.launch.groups:
            needed = {name: value for name, value in group.node_labels.items() if labels.get(name) != value}
            if needed and any(part.group == group.name for part in fresh):
                where, text = f"groups.{group.name}.node_labels", ", ".join(f"{k}={v}" for k, v in needed.items())
                raise refuse_launch(LaunchError(where, f"this node has not {text}"))

    @staticmethod
    def _raise_refused(states: list[PartState]) -> None:
        """Raises NodeError for parts that could not be hosted."""
        failed = [state for state in states if state.condition is not Condition.LIVE]
        if failed:
            message = f"{failed[0].part.name}: {failed[0].reason or failed[0].condition.name.lower()}"
            names = ",".join(state.part.name for state in failed[:20])
            raise NodeError(Refusal.WORKER_UNAVAILABLE, message, retry_delay_ms=1000, parts=names)

    async def _list_unseen(self, run: str) -> set[str]:
        """Parts of a run whose node does not live, and that nobody owns."""
        nodes, owned = await self.records.list_nodes(), await self.records.list_owned(run)
        placed = await self.records.list_placed(run)
        return {part for part, one in placed.items() if one.node not in nodes and part not in owned}


@asynccontextmanager
async def open_node(settings: NodeSettings, log: NodeLog, clock: Clock) -> AsyncIterator[Node]:
    """A node with its world open; it has yet to `begin`. At the end it gives everything back.

    Raises:
        EcumeneError: the world cannot be reached, or is not there.
    """
    client = ClientSettings(reconnect_timeout_s=settings.reconnect_timeout_s)
    async with connect(settings.server, settings.world, settings=client) as world:
        node = Node(settings, world, log, clock)
        try:
            yield node
        finally:
            await node.end()


def choose_parts(description: Description, hosted: list[str]) -> list[Part]:
    """The parts of a run that are to be hosted here. Raises NodeError: there is no such part."""
    by_name = {part.name: part for part in description.parts}
    if stray := [name for name in hosted if name not in by_name]:
        raise NodeError(Refusal.PART_NOT_FOUND, f"no such part: {stray[0]!r}", run=description.run, part=stray[0])
    return [by_name[name] for name in dict.fromkeys(hosted)] if hosted else list(description.parts)


def refuse_other(run: str) -> NodeError:
    """A run that was launched otherwise."""
    message = f"run {run!r} was launched with another description, other parts or other agents"
    return NodeError(Refusal.RUN_EXISTS, message, run=run)


def refuse_room(limit: str, maximum: int, actual: int) -> NodeError:
    """More than the node hosts."""
    message = f"{actual:,} exceed the node's {limit} = {maximum:,}"
    return NodeError(Refusal.CAPACITY_EXCEEDED, message, limit=limit, max=str(maximum), actual=str(actual))


def find_versions() -> dict[str, str]:
    """Versions of Ecumene and of what it runs on."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            pass
    return found
