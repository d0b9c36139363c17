"""One worker's place on a node: whatever happens to its process, another one hosts its parts, within limits.

start ─► ready ─► every part hosted ─► … ─► it ends by itself ─► a wait ─► start
                                             └── too often: its parts are given up, and told to be
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

from agent_runtime.model.clock import Clock
from agent_runtime.model.errors import AgentRuntimeError, CommandError, WorkerEndedError
from agent_runtime.model.owned_tasks import OwnedTasks
from agent_runtime.model.parts import Part
from agent_runtime.model.refusals import NodeError, Refusal
from agent_runtime.node.part_states import Condition, PartObserver, PartState
from agent_runtime.node.settings import NodeSettings
from agent_runtime.settings import WorkerConfig
from agent_runtime.worker.commands import Command, Drop, Host, Inspect
from agent_runtime.worker.process import WorkerProcess

BACKOFF_DOUBLINGS_MAX = 16
LEASE_GRACE_S = 5.0
"""Beyond the time of a lease: until the world has ended it."""


class WorkerSlot:
    """Parts, and the process that hosts them. `run` until cancelled; then `stop`."""

    def __init__(self, config: WorkerConfig, settings: NodeSettings, observer: PartObserver, clock: Clock) -> None:
        self.index = config.index
        self.parts: dict[str, PartState] = {}
        self.restarts = 0
        self.last_failure = ""
        self._config = config
        self._settings = settings
        self._observer = observer
        self._clock = clock
        self._worker: WorkerProcess | None = None
        self._is_ready = False
        self._is_stopping = False
        self._hosting = OwnedTasks()
        self._losses: Counter[str] = Counter()
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
        await self._drop(state, drain_s)
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
        if state is None or worker is None or not state.term:
            return
        if await self.inspect(self._settings.silence_s):
            return
        if self.parts.get(name) is state and state.term and not worker.is_gone:
            self._observer.log(f"lost {name} and does not answer: killed", self.index)
            await worker.kill()

    async def run(self) -> None:
        """Keep a process for the parts, until cancelled or until it has ended too often."""
        ended_s: deque[float] = deque()
        while True:
            try:
                await self._live()
            except (AgentRuntimeError, OSError, TimeoutError) as error:
                self.last_failure = str(error) or f"not ready within {self._settings.start_timeout_s:g} s"
            except Exception as defect:  # noqa: BLE001 - the edge: whoever waits for the parts waits for this task
                self.last_failure = f"{type(defect).__name__}: {defect}"
            self._observer.log(f"ended: {self.last_failure}", self.index)
            now_s = self._clock.now_s()
            ended_s.append(now_s)
            while ended_s[0] < now_s - self._settings.restart_window_s:
                ended_s.popleft()
            if len(ended_s) > self._settings.restarts_max:
                await self._give_up()
                return
            await asyncio.sleep(self._count_backoff_s(len(ended_s)))
            self.restarts += 1

    async def stop(self) -> None:
        """End the process in order; `run` must have been cancelled. Returns when it is gone."""
        self._is_stopping = True
        if not self.parts:
            # Whoever could not have the last of them is still telling so.
            await self._hosting.wait_all(self._settings.stop_grace_s)
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
            log=lambda line: self._observer.log(line, self.index),
        )
        try:
            async with asyncio.timeout(self._settings.start_timeout_s):
                await worker.wait_ready()
            self._is_ready = True
            for state in list(self.parts.values()):
                self._begin_hosting(state)
            await worker.wait_ended()
            raise WorkerEndedError(self.index, "ended without being asked to")
        except Exception:
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
                await self._observer.part_orphaned(state)
            state.term = 0

    def _begin_hosting(self, state: PartState) -> None:
        if self._is_ready and not self._is_stopping:
            self._hosting.start(self._host(state), f"host {state.part.name}")

    async def _host(self, state: PartState) -> None:
        """Have the worker own a part; again while what stands in the way may pass, and when it is lost at once."""
        for tries in itertools.count(1):
            losses = self._losses[state.part.name]
            try:
                answer = await self._ask_host(state)
            except CommandError as error:
                if not error.may_pass or tries >= self._settings.host_tries_max:
                    await self._refuse(state, str(error))
                    return
                self._observer.log(f"cannot host {state.part.name} now: {error}", self.index)
                await asyncio.sleep(self._count_backoff_s(tries))
                continue
            except NodeError as error:
                if error.reason is Refusal.DEADLINE and self._worker is not None:
                    await self._worker.kill()
                return  # it is hosted again when there is another process
            if self.parts.get(state.part.name) is not state:
                await self._drop(state, 0.0)  # not to be here any more, which the worker could not know
                return
            term = state.term = int(answer.get("term") or 0)
            state.through = int(answer.get("through") or 0)
            await self._observer.part_hosted(state)
            if state.term == term and self._losses[state.part.name] == losses:
                await self._settle(state, Condition.LIVE, "")
                return
            state.term = 0
            await asyncio.sleep(self._count_backoff_s(tries))

    async def _ask_host(self, state: PartState) -> dict[str, Any]:
        """The worker's answer. Raises CommandError, NodeError."""
        if self.parts.get(state.part.name) is not state:
            raise self._unavailable()  # dropped meanwhile
        muted = await self._observer.list_muted(state.part)
        # Whoever held it and is gone holds it until the end of its lease.
        launch = self._config.launch
        wait_s = max(self._settings.part_wait_s, launch.worker.lease_ttl_s + LEASE_GRACE_S)
        load_s = sum(launch.load_timeout_s(group) for group in launch.groups if group.name == state.part.group)
        return await self.ask(
            lambda number: Host(id=number, part=state.part, wait_s=wait_s, muted=muted),
            wait_s + self._settings.host_timeout_s + load_s,
        )

    async def _drop(self, state: PartState, drain_s: float) -> None:
        timeout_s = drain_s + self._config.launch.worker.drop_timeout_s + self._settings.stop_grace_s
        name = state.part.name
        try:
            answer = await self.ask(lambda number: Drop(id=number, part=name, drain_s=drain_s), timeout_s)
            state.through = int(answer.get("through") or state.through)
        except CommandError:
            pass  # it knows nothing of it, or has given it back without its cursor
        except NodeError as error:
            # Whoever owned it is dead; or does not come to it, and would own it for as long as it lives.
            if error.reason is Refusal.DEADLINE and self._worker is not None:
                self._observer.log(f"does not give {name} back: killed", self.index)
                await self._worker.kill()

    def _count_backoff_s(self, times: int) -> float:
        doublings = min(times - 1, BACKOFF_DOUBLINGS_MAX)
        return min(self._settings.backoff_s_max, self._settings.backoff_first_s * 2.0**doublings)

    async def _refuse(self, state: PartState, reason: str) -> None:
        if self.parts.get(state.part.name) is state:
            del self.parts[state.part.name]
            await self._observer.part_refused(state)
            await self._settle(state, Condition.HANDED_OVER, reason)

    async def _give_up(self) -> None:
        states = list(self.parts.values())
        self.parts.clear()
        reason = f"worker {self.index} ended {self._settings.restarts_max + 1} times within "
        reason += f"{self._settings.restart_window_s:g} s, at last: {self.last_failure}"
        for state in states:
            state.reason = reason
        await self._observer.parts_given_up(states)
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
            # Counted, too: it may be heard before whoever waits for the answer to Host has come to read it.
            self._losses[name] += 1
            if state is not None and state.term:
                # The node is to host it until it is told otherwise; who was quicker keeps it, and Host then says so.
                self._observer.log(f"lost {name}: {told.get('reason', '')}", self.index)
                was_live = state.condition is Condition.LIVE
                state.condition, state.term = Condition.STARTING, 0
                if was_live:  # else it is being hosted, and hosted again before it counts as live
                    self._begin_hosting(state)
        else:
            self._observer.heard(told)

    def _unavailable(self) -> NodeError:
        message = f"worker {self.index} is not there now"
        return NodeError(Refusal.WORKER_UNAVAILABLE, message, retry_delay_ms=500)
