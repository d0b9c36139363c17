"""A run on one node: its parts spread over worker slots, and the way from an agent to its worker."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from ecumene.client import EcumeneError

from agent_runtime.agents.cohort import AGENT_ID
from agent_runtime.model.clock import Clock
from agent_runtime.model.errors import CommandError
from agent_runtime.model.owned_tasks import OwnedTasks
from agent_runtime.model.parts import Part
from agent_runtime.model.refusals import NodeError, refuse_agent
from agent_runtime.node.agent_rows import Found, Tables, find_rows, list_in_part
from agent_runtime.node.logs import NodeLog
from agent_runtime.node.part_states import Condition, PartState
from agent_runtime.node.records import Description, Records
from agent_runtime.node.seats import Seats
from agent_runtime.node.settings import NodeSettings
from agent_runtime.node.slots import WorkerSlot
from agent_runtime.settings import Launch, WorkerConfig
from agent_runtime.worker.commands import Command, Mute, Seat

ONE_TO_ONE_FROM = 1000
"""Indices of workers that host one agent each begin here, so that they are told apart."""
PRESENCE_TIMEOUT_S = 10.0


class HostedRun:
    """Parts of one run. `launch`: with paths and the node's name filled in."""

    def __init__(
        self,
        description: Description,
        launch: Launch,
        tables: Tables,
        settings: NodeSettings,
        records: Records,
        log: NodeLog,
        clock: Clock,
        seats: Seats,
    ) -> None:
        self.run = description.run
        self.description = description
        self.launch = launch
        self.tables = tables
        self._settings = settings
        self._records = records
        self._log = log
        self._clock = clock
        self._seats = seats
        self._groups = {group.name: group for group in launch.groups}
        self._slots: dict[int, WorkerSlot] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._ending: dict[int, asyncio.Task[None]] = {}
        self._running = OwnedTasks()
        self._running.failure.add_done_callback(self._note_defect)
        self._next_single = ONE_TO_ONE_FROM
        self._gone: dict[str, PartState] = {}

    @property
    def parts(self) -> dict[str, PartState]:
        """The parts that are here, by name."""
        return {name: state for slot in self._slots.values() for name, state in slot.parts.items()}

    @property
    def gone(self) -> list[PartState]:
        """Parts that were here and are not any more, the last state of each."""
        return list(self._gone.values())

    @property
    def agents(self) -> int:
        """Agents of the parts that are here."""
        return sum(slot.agents for slot in self._slots.values())

    @property
    def processes(self) -> int:
        """Workers that host one agent each."""
        here = {index for index, slot in self._slots.items() if slot.parts or slot.pid}
        return sum(index >= ONE_TO_ONE_FROM for index in here | self._ending.keys())

    @property
    def slots(self) -> list[WorkerSlot]:
        """Those that have had parts, by index."""
        return [self._slots[index] for index in sorted(self._slots)]

    async def host(self, parts: Iterable[Part]) -> list[PartState]:
        """Host parts; those that are here already stay. Returns when it is known of each what came of it."""
        states = []
        by_slot: dict[WorkerSlot, list[PartState]] = {}
        here = self.parts
        for part in parts:
            if (state := here.get(part.name)) is not None:
                slot = self._slots[state.slot]
            else:
                slot = self._choose_slot(part)
                state = slot.add(part)
                self._gone.pop(part.name, None)
            states.append(state)
            by_slot.setdefault(slot, []).append(state)
        await asyncio.gather(*(slot.wait_settled(some) for slot, some in by_slot.items()))
        return states

    async def drop(self, names: Sequence[str], drain_s: float, condition: Condition, reason: str) -> list[PartState]:
        """Give parts back; returns what they were."""
        here = self.parts
        dropped = await asyncio.gather(
            *(self._slots[here[name].slot].drop(name, drain_s, condition, reason) for name in names if name in here)
        )
        states = [state for state in dropped if state is not None]
        self._note_gone(states)
        await self._stop_idle()
        return states

    async def stop(self) -> None:
        """End all workers in order, at once: what they own they give back by themselves."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        await asyncio.gather(*(slot.stop() for slot in self._slots.values()))
        await asyncio.gather(*self._ending.values(), return_exceptions=True)
        await self._running.cancel_all()

    def check_silent(self, name: str) -> None:
        """The entry of a part is gone from the world; if it is here, its worker has to say something."""
        state = self.parts.get(name)
        if state is not None:
            self._running.start(self._slots[state.slot].check_silent(name), f"silent {name}")

    def find(self, agents: Sequence[str]) -> list[Found]:
        """Those of some agents that live here, in any order."""
        found = []
        for group, states in self._by_group().items():
            ids = self.tables[group].column(AGENT_ID)
            rows = find_rows(ids, agents)
            for agent, row in zip(agents, rows, strict=True):
                if row is None:
                    continue
                state = next((one for one in states if one.part.first <= row < one.part.end), None)
                if state is not None:
                    found.append(Found(agent, row, state, self._slots[state.slot]))
        return found

    def find_one(self, agent: str) -> Found:
        """Where an agent lives. Raises NodeError: not here."""
        found = self.find([agent])
        if not found:
            raise refuse_agent(self.run, agent)
        return found[0]

    async def ask(self, agent: str, make: Callable[[int], Command], timeout_s: float) -> dict[str, Any]:
        """Have the worker of an agent do a command. Raises NodeError, CommandError."""
        return await self.find_one(agent).slot.ask(make, timeout_s)

    async def list_muted(self, part: Part) -> tuple[str, ...]:
        """Which agents of a part are muted. Raises CommandError: the world does not say now."""
        try:
            muted = sorted(await self._records.list_muted(self.run))
        except EcumeneError as error:
            raise CommandError(f"muted agents are not known: {error}", may_pass=True) from None
        rows = find_rows(self.tables[part.group].column(AGENT_ID), muted) if muted else []
        return tuple(a for a, row in zip(muted, rows, strict=True) if row is not None and part.first <= row < part.end)

    async def part_hosted(self, state: PartState) -> None:
        """Tell the part's worker again which of its agents are muted, and in whose place a person sits."""
        try:
            muted = await self._records.list_muted(self.run)
        except EcumeneError as error:
            self._log.write(f"muted agents of {state.part.name} are not known: {error}", self.run, state.slot)
            muted = set()
        taken = self._seats.list_taken(self.run)
        slot = self._slots[state.slot]
        for agent in list_in_part(self.tables, state.part, sorted({*muted, *taken})):
            try:
                if agent in muted:
                    await slot.ask(lambda number, agent=agent: Mute(id=number, agent=agent), PRESENCE_TIMEOUT_S)  # type: ignore[misc]
                if agent in taken:
                    timeout_s = taken[agent].timeout_s
                    await slot.ask(
                        lambda number, agent=agent, timeout_s=timeout_s: Seat(  # type: ignore[misc]
                            id=number, agent=agent, timeout_s=timeout_s
                        ),
                        PRESENCE_TIMEOUT_S,
                    )
            except (NodeError, CommandError) as error:
                self._log.write(f"{agent} could not be muted or seated again: {error}", self.run, state.slot)

    async def part_refused(self, state: PartState) -> None:
        """Somebody else has it, or it cannot be hosted here: others may take it."""
        self._note_gone([state])
        await self._tell_world(self._records.hand_over(self.run, [state.part.name], self._settings.name, refused=True))
        self._running.start(self._stop_idle(), "stop idle workers")

    async def part_orphaned(self, state: PartState) -> None:
        """Free the part's entry."""
        if state.term:
            await self._tell_world(self._records.free(self.run, state.part.name, state.term))

    async def parts_given_up(self, states: list[PartState]) -> None:
        """Nobody hosts them until they are launched again."""
        self._note_gone(states)
        if states:
            self._log.write(f"given up: {', '.join(state.part.name for state in states)}: {states[0].reason}", self.run)
            names = [state.part.name for state in states]
            await self._tell_world(self._records.end(self.run, names, self._settings.name, states[0].reason))

    def heard(self, told: dict[str, Any]) -> None:
        """Turns that wait for a person go to whoever sits there."""
        self._seats.tell(self.run, told)

    def log(self, text: str, worker: int) -> None:
        """A line of a worker."""
        self._log.write(text, self.run, worker)

    async def _tell_world(self, writing: Awaitable[None]) -> None:
        try:
            await writing
        except EcumeneError as error:
            self._log.write(f"the world was not told: {error}", self.run)

    def _note_gone(self, states: list[PartState]) -> None:
        self._gone.update((state.part.name, state) for state in states)
        taken = self._seats.list_taken(self.run)
        for state in states:
            for agent in list_in_part(self.tables, state.part, list(taken)):
                taken[agent].gone.set()

    def _choose_slot(self, part: Part) -> WorkerSlot:
        """The worker that is to host a part: its own, the one with the local model, or the one with fewest agents."""
        group = self._groups[part.group]
        if group.process == "agent":
            self._next_single += 1
            return self._make_slot(self._next_single - 1)
        if self.launch.asks_local(group):
            return self._make_slot(0)
        most = min(self._settings.workers, self.launch.workers or self._settings.workers)
        for index in range(most):
            self._make_slot(index)
        return min((self._slots[index] for index in range(most)), key=lambda slot: (slot.agents, slot.index))

    def _make_slot(self, index: int) -> WorkerSlot:
        task = self._tasks.get(index)
        if index not in self._slots or task is None or task.done():
            config = WorkerConfig(
                server=self._settings.server, world=self._settings.world, index=index, launch=self.launch
            )
            slot = self._slots[index] = WorkerSlot(config, self._settings, self, self._clock)
            self._tasks[index] = asyncio.get_running_loop().create_task(
                self._run_slot(slot, self._ending.get(index)), name=f"worker {index} of {self.run}"
            )
        return self._slots[index]

    @staticmethod
    async def _run_slot(slot: WorkerSlot, before: asyncio.Task[None] | None) -> None:
        """Run a slot; not beside the process that had its index before: both would record under one name."""
        if before is not None:
            await asyncio.wait({before})
        await slot.run()

    async def _stop_idle(self) -> None:
        """End the workers that host nothing any more."""
        idle = [slot for slot in self._slots.values() if not slot.parts]
        for slot in idle:
            del self._slots[slot.index]
            running = self._tasks.pop(slot.index)
            before = self._ending.get(slot.index)
            ending = self._running.start(self._end_slot(slot, running, before), f"end worker {slot.index}")
            self._ending[slot.index] = ending
        await asyncio.gather(*(self._ending[slot.index] for slot in idle), return_exceptions=True)

    async def _end_slot(self, slot: WorkerSlot, running: asyncio.Task[None], before: asyncio.Task[None] | None) -> None:
        running.cancel()
        await asyncio.wait({running})
        await slot.stop()
        if before is not None:
            await asyncio.wait({before})
        if self._ending.get(slot.index) is asyncio.current_task():
            del self._ending[slot.index]

    def _note_defect(self, failure: asyncio.Future[None]) -> None:
        """What looked after workers in the background has failed."""
        if not failure.cancelled() and (defect := failure.exception()) is not None:
            self._log.write(f"internal error: {type(defect).__name__}: {defect}", self.run)

    def _by_group(self) -> dict[str, list[PartState]]:
        by_group: dict[str, list[PartState]] = {}
        for state in self.parts.values():
            by_group.setdefault(state.part.group, []).append(state)
        return by_group
