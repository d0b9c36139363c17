"""A node: what it hosts, what it knows of itself, and its life in the world."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from ecumene.client import EcumeneError, EnvironmentExistsError, World, connect

from agent_runtime.model.clock import Clock
from agent_runtime.model.owned_tasks import OwnedTasks
from agent_runtime.model.parts import Part
from agent_runtime.model.refusals import NodeError, Refusal, refuse_run
from agent_runtime.node.hosting import HostedRun
from agent_runtime.node.launches import Ready, list_providers, parse_description
from agent_runtime.node.logs import NodeLog
from agent_runtime.node.membership import Membership
from agent_runtime.node.part_states import Condition, PartState
from agent_runtime.node.populations import Arriving, claim_folder, remove_folder, run_folder
from agent_runtime.node.preparing import Preparing, choose_parts, refuse_other
from agent_runtime.node.records import Description, Records, list_timers
from agent_runtime.node.room import Room
from agent_runtime.node.run_locks import RunLocks
from agent_runtime.node.run_names import check_run_name
from agent_runtime.node.seats import Seats
from agent_runtime.node.settings import NodeSettings
from agent_runtime.node.takeover import Takeover
from agent_runtime.node.versions import find_versions
from agent_runtime.ownership.clock_place import leave_clocks


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
        self._room = Room(settings, self.runs)
        self._preparing = Preparing(settings, self.records, log)
        self._locks = RunLocks()
        self._has_scratch = False
        self._versions = find_versions()

    @property
    def agents(self) -> int:
        """Agents that it hosts."""
        return self._room.agents

    @property
    def processes(self) -> int:
        """Its workers that host one agent each."""
        return self._room.processes

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
            description, ready = await self._preparing.describe(run, document, parts, arriving)
            wanted = choose_parts(description, list(hosted))
            self._room.check(run, ready.launch, wanted)
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
            ended = sorted({*here, *await self._list_unseen(run)})
            await self.records.end(run, ended, self.settings.name, "stopped")
            dropped = []
            if hosting is not None:
                description = hosting.description
                dropped = await hosting.drop(here, drain_s, Condition.STOPPED, "stopped")
            if description is not None:
                timers = [one for one in list_timers(description) if one[0] in ended]
                await leave_clocks(self.records.world, run, timers)
            return dropped

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
        """Whether a part may come, beside others that are about to."""
        is_open = not self.is_draining and self.membership.is_certain
        return is_open and self._room.fits(description, part, beside)

    async def take(self, description: Description, parts: list[Part]) -> None:
        """Host parts that are placed here, from what the world keeps. Raises NodeError, EcumeneError."""
        async with self._locks.hold(description.run):
            self._check_open()
            if (hosting := self.runs.get(description.run)) is None:
                hosting = await self._host_run(description, await self._preparing.take(description))
            states = await hosting.host(parts)
        self._raise_refused(states)

    def check_silent(self, run: str, part: str) -> None:
        """The entry of a part is gone."""
        if (hosting := self.runs.get(run)) is not None:
            hosting.check_silent(part)

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
                self.seats,
            )
        return self.runs[run]

    def _check_open(self) -> None:
        if self.is_draining:
            raise NodeError(Refusal.DRAINING, "the node takes no more parts", retry_delay_ms=1000)

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
    async with connect(settings.server, settings.world, settings=settings.client) as world:
        node = Node(settings, world, log, clock)
        try:
            yield node
        finally:
            await node.end()
