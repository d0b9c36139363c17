"""One worker's place on a node: whatever happens to its process, another one hosts its parts, within limits.

start ─► ready ─► every part hosted ─► … ─► it ends by itself ─► a wait ─► start
                                             └── too often: its parts are given up, and told to be
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

from agent_runtime.commands import Command, Drop, Host, Inspect
from agent_runtime.model.clock import Clock
from agent_runtime.model.errors import AgentRuntimeError, CommandError, WorkerEndedError
from agent_runtime.model.owned_tasks import OwnedTasks
from agent_runtime.model.parts import Part
from agent_runtime.model.refusals import NodeError, Refusal
from agent_runtime.node.settings import NodeSettings
from agent_runtime.settings import WorkerConfig
from agent_runtime.worker_process import WorkerProcess

BACKOFF_DOUBLINGS_MAX = 16


class Condition(Enum):
    """How a part is on this node; as `PartCondition` in the contract."""

    STARTING = 1
    LIVE = 2
    STOPPED = 3
    HANDED_OVER = 4
    GIVEN_UP = 5


@dataclass(slots=True)
class PartState:
    """A part on this node. `term`: revision of its entry while it is owned."""

    part: Part
    slot: int
    condition: Condition = Condition.STARTING
    term: int = 0
    through: int = 0
    reason: str = ""
    statistics: dict[str, int] = field(default_factory=dict)


class Owner(Protocol):
    """Whose slots these are: it is told what becomes of parts."""

    async def part_hosted(self, state: PartState) -> None:
        """The part is owned by the slot's worker; what was told of its agents before has to be told again."""

    async def part_refused(self, state: PartState) -> None:
        """The worker cannot have the part; the slot has let it go."""

    async def part_orphaned(self, state: PartState) -> None:
        """The process that owned the part is dead for sure."""

    async def parts_given_up(self, states: list[PartState]) -> None:
        """The slot's worker ended too often; the slot has let them go."""

    def heard(self, told: dict[str, Any]) -> None:
        """What else the worker says by itself."""

    def log(self, text: str, worker: int) -> None:
        """A line of the worker, or about it."""


class WorkerSlot:
    """Parts, and the process that hosts them. `run` until cancelled; then `stop`."""

    def __init__(self, config: WorkerConfig, settings: NodeSettings, owner: Owner, clock: Clock) -> None:
        self.index = config.index
        self.parts: dict[str, PartState] = {}
        self.restarts = 0
        self.last_failure = ""
        self._config = config
        self._settings = settings
        self._owner = owner
        self._clock = clock
        self._worker: WorkerProcess | None = None
        self._is_ready = False
        self._is_stopping = False
        self._hosting = OwnedTasks()
        self._changed = asyncio.Condition()

    @property
    def pid(self) -> int:
        """Of its process; 0 = it has none now."""
        return 0 if self._worker is None or self._worker.is_gone else self._worker.pid

    @property
    def agents(self) -> int:
        """Agents of its parts."""
        return sum(state.part.end - state.part.first for state in self.parts.values())

    def add(self, part: Part) -> PartState:
        """Have the worker host a part, now and after every restart; `wait_settled` says what came of it."""
        state = self.parts[part.name] = PartState(part, self.index)
        self._begin_hosting(state)
        return state

    async def wait_settled(self, states: list[PartState]) -> None:
        """Until none of them is starting any more."""
        async with self._changed:
            await self._changed.wait_for(lambda: all(state.condition is not Condition.STARTING for state in states))

    async def drop(self, name: str, drain_s: float, condition: Condition, reason: str) -> PartState | None:
        """Have the worker give a part back; returns what it was, None if it was not here."""
        state = self.parts.pop(name, None)
        if state is None:
            return None
        try:
            timeout_s = drain_s + self._config.launch.worker.stop_timeout_s + self._settings.stop_grace_s
            answer = await self.ask(lambda number: Drop(id=number, part=name, drain_s=drain_s), timeout_s)
            state.through = int(answer.get("through") or state.through)
        except (NodeError, CommandError):
            pass  # whoever owned it is dead, or knew nothing of it
        await self._settle(state, condition, reason)
        return state

    async def ask(self, make: Callable[[int], Command], timeout_s: float) -> dict[str, Any]:
        """Have the worker do a command; returns its answer.

        Raises:
            NodeError: it is not there (WORKER_UNAVAILABLE), or did not answer in time (DEADLINE).
            CommandError: it cannot do it.
        """
        worker = self._worker
        if worker is None or not self._is_ready:
            raise self._unavailable()
        try:
            return await worker.ask(make, timeout_s)
        except WorkerEndedError:
            raise self._unavailable() from None
        except TimeoutError:
            raise NodeError(Refusal.DEADLINE, f"worker {self.index} did not answer within {timeout_s:g} s") from None

    async def inspect(self, timeout_s: float) -> dict[str, Any]:
        """What the worker says of itself; empty while it is not there."""
        try:
            return await self.ask(lambda number: Inspect(id=number), timeout_s)
        except (NodeError, CommandError):
            return {}

    async def check_silent(self, name: str) -> None:
        """The entry of a part is gone from the world: unless the worker says so by itself, it is stuck, and killed."""
        state = self.parts.get(name)
        worker = self._worker
        if state is None or worker is None or state.condition is not Condition.LIVE:
            return
        if await self.inspect(self._settings.silence_s):
            return
        if self.parts.get(name) is state and state.condition is Condition.LIVE and not worker.is_gone:
            self._owner.log(f"lost {name} and does not answer: killed", self.index)
            await worker.kill()

    async def run(self) -> None:
        """Keep a process for the parts, until cancelled or until it has ended too often."""
        ended_s: deque[float] = deque()
        while True:
            try:
                await self._live()
            except (AgentRuntimeError, OSError, TimeoutError) as error:
                self.last_failure = str(error) or f"not ready within {self._settings.start_timeout_s:g} s"
            self._owner.log(f"ended: {self.last_failure}", self.index)
            now_s = self._clock.now_s()
            ended_s.append(now_s)
            while ended_s[0] < now_s - self._settings.restart_window_s:
                ended_s.popleft()
            if len(ended_s) > self._settings.restarts_max:
                await self._give_up()
                return
            doublings = min(len(ended_s) - 1, BACKOFF_DOUBLINGS_MAX)
            await asyncio.sleep(min(self._settings.backoff_s_max, self._settings.backoff_first_s * 2**doublings))
            self.restarts += 1

    async def stop(self) -> None:
        """End the process in order; `run` must have been cancelled. Returns when it is gone."""
        self._is_stopping = True
        await self._hosting.cancel_all()
        if self._worker is not None:
            await self._worker.stop(self._config.launch.worker.stop_timeout_s, self._settings.stop_grace_s)

    async def _live(self) -> None:
        """One process, from its start to its end, which is always raised."""
        worker = self._worker = await WorkerProcess.start(
            self._config,
            program=self._settings.program,
            dies_with_us=True,
            hear=self._hear,
            log=lambda line: self._owner.log(line, self.index),
        )
        try:
            async with asyncio.timeout(self._settings.start_timeout_s):
                await worker.wait_ready()
            self._is_ready = True
            for state in list(self.parts.values()):
                self._begin_hosting(state)
            await worker.wait_ended()
            raise WorkerEndedError(self.index, "ended without being asked to")
        except TimeoutError:
            await worker.kill()
            raise
        finally:
            self._is_ready = False
            if worker.is_gone:
                await self._hosting.cancel_all()
                self._hosting = OwnedTasks()
                await self._orphan()

    async def _orphan(self) -> None:
        """Nobody owns the parts any more: free their entries, so that nobody has to wait for the end of a lease."""
        states = list(self.parts.values())
        for state in states:
            state.condition = Condition.STARTING
        for state in states:
            if state.term:
                await self._owner.part_orphaned(state)
            state.term = 0

    def _begin_hosting(self, state: PartState) -> None:
        if self._is_ready and not self._is_stopping:
            self._hosting.start(self._host(state), f"host {state.part.name}")

    async def _host(self, state: PartState) -> None:
        """Have the worker own a part."""
        wait_s = self._settings.part_wait_s
        launch = self._config.launch
        load_s = sum(launch.load_timeout_s(group) for group in launch.groups if group.name == state.part.group)
        try:
            answer = await self.ask(
                lambda number: Host(id=number, part=state.part, wait_s=wait_s),
                wait_s + self._settings.host_timeout_s + load_s,
            )
        except CommandError as error:
            await self._refuse(state, str(error))
            return
        except NodeError as error:
            if error.reason is Refusal.DEADLINE and self._worker is not None:
                await self._worker.kill()
            return  # it is hosted again when there is another process
        if self.parts.get(state.part.name) is not state:
            return  # dropped meanwhile
        state.term, state.through = int(answer.get("term") or 0), int(answer.get("through") or 0)
        await self._owner.part_hosted(state)
        await self._settle(state, Condition.LIVE, "")

    async def _refuse(self, state: PartState, reason: str) -> None:
        if self.parts.get(state.part.name) is state:
            del self.parts[state.part.name]
            await self._owner.part_refused(state)
            await self._settle(state, Condition.HANDED_OVER, reason)

    async def _give_up(self) -> None:
        states = list(self.parts.values())
        self.parts.clear()
        reason = f"worker {self.index} ended {self._settings.restarts_max + 1} times within "
        reason += f"{self._settings.restart_window_s:g} s, at last: {self.last_failure}"
        for state in states:
            state.reason = reason
        await self._owner.parts_given_up(states)
        for state in states:
            await self._settle(state, Condition.GIVEN_UP, reason)

    async def _settle(self, state: PartState, condition: Condition, reason: str) -> None:
        async with self._changed:
            state.condition, state.reason = condition, reason
            if condition is not Condition.LIVE:
                state.term = 0
            self._changed.notify_all()

    def _hear(self, told: dict[str, Any]) -> None:
        name = told.get("lost")
        if isinstance(name, str):
            state = self.parts.get(name)
            if state is not None and state.condition is Condition.LIVE:
                # The node is to host it until it is told otherwise; who was quicker keeps it, and Host then says so.
                self._owner.log(f"lost {name}: {told.get('reason', '')}", self.index)
                state.condition, state.term = Condition.STARTING, 0
                self._begin_hosting(state)
        else:
            self._owner.heard(told)

    def _unavailable(self) -> NodeError:
        message = f"worker {self.index} is not there now"
        return NodeError(Refusal.WORKER_UNAVAILABLE, message, retry_delay_ms=500)
