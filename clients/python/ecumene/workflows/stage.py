"""The stage: runs actors, each one call at a time: calls of one lane in order, others as their arguments are there.

take ─► cell's lanes ─► (refs there?) ─► ready ─► method, in the loop or in a thread ─► outcome ─► port.commit
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque

from ecumene.client import AbortedError
from ecumene.workflows.background import Background
from ecumene.workflows.calls import MAKE, STOP
from ecumene.workflows.cells import ActorCell, Job, StagePort
from ecumene.workflows.errors import CallRefusedError, EffectsConflictError, Failure
from ecumene.workflows.limits import StageLimits
from ecumene.workflows.messages import Message, read_outcome, write_failure
from ecumene.workflows.methods import CANCEL_GRACE_S, FindClass, MethodResult, MethodRunner
from ecumene.workflows.stage_load import StageLoad
from ecumene.workflows.stage_outcomes import StageOutcomes
from ecumene.workflows.threads import Threads
from ecumene.workflows.waits import Elsewhere, WaitTable

logger = logging.getLogger("ecumene.workflows")

CONFLICT_WAIT_FIRST_MS, CONFLICT_WAIT_MS_MAX = 20.0, 640.0
_YIELD_EVERY = 16


class Stage:
    """Runs actors in one loop. Close it."""

    def __init__(
        self,
        host: str,
        port: StagePort,
        limits: StageLimits,
        chance: random.Random,
        find_class: FindClass,
        elsewhere: Elsewhere | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._port = port
        self._chance = chance
        self._threads = Threads(limits)
        self.waits = WaitTable(self._threads, limits.circle_check_s, elsewhere)
        self._methods = MethodRunner(host, self._threads, self.waits, find_class)
        self._load = StageLoad(host, limits)
        self._outcomes = StageOutcomes(host, port, self._load.forget)
        self._cells: dict[str, ActorCell] = {}
        # What they wait for has its own end, and they commit whatever that is.
        self._finishing = Background(lambda error: None)

    @property
    def actors(self) -> int:
        """Actors that live here."""
        return len(self._cells)

    @property
    def waiting(self) -> int:
        """Calls taken and not finished."""
        return self._load.waiting

    def take(self, message: Message) -> None:
        """Take a call; what cannot be run gets its outcome at once."""
        job = Job(message, self._loop.time())
        self._load.add(message)
        refusal = self._load.find_refusal(message, len(self._cells), is_known=message.actor in self._cells)
        if refusal:
            self._outcomes.fail(job, CallRefusedError.code, refusal)
            return
        cell = self._cells.get(message.actor)
        if cell is None:
            made_for = (message.flow, message.caller)
            cell = self._cells[message.actor] = ActorCell(message.actor, message.class_name, made_for, message.life)
        if message.do != STOP:
            job.turn = cell.turns = cell.turns + 1
        lane = cell.lanes.setdefault(message.lane, deque())
        lane.append(job)
        if job.missing:
            self._port.need(message, lambda place, text: self._take_ref(cell, job, place, text))
        elif len(lane) == 1:
            self._make_ready(cell, job)

    def drop(self, flow: str, caller: str = "") -> None:
        """A flow has ended, or one of its callers: its actors go, and nobody waits for their calls."""
        for cell in list(self._cells.values()):
            if cell.made_for[0] == flow and caller in ("", cell.made_for[1]):
                self._remove(cell)

    async def wait_idle(self, timeout_s: float) -> bool:
        """Wait until no call is under way, at most so long; whether that is so."""
        return await self._load.wait_idle(timeout_s)

    async def close(self) -> None:
        """End everything; calls under way get no outcome. Functions that run in threads are left to their end."""
        tasks = {cell.task for cell in self._cells.values() if cell.task is not None}
        self._outcomes.is_closing = True
        for cell in list(self._cells.values()):
            self._remove(cell)
        if tasks:
            # What takes no notice of its end is left to its host's.
            await asyncio.wait(tasks, timeout=CANCEL_GRACE_S)
        await self._finishing.close()
        await self.waits.close()
        self._threads.close()

    def _take_ref(self, cell: ActorCell, job: Job, place: int, text: str) -> None:
        if job.is_told:
            return  # its actor is gone
        problem = self._load.add_argument(job.message, text)
        if problem:
            job.failures[place] = Failure(CallRefusedError.code, problem)
        elif text:
            outcome = read_outcome(text)
            if outcome.failure is not None:
                job.failures[place] = outcome.failure
            else:
                job.refs[place] = outcome.tree
        job.missing -= 1
        if not job.missing and not cell.is_gone and cell.lanes[job.message.lane][0] is job:
            self._make_ready(cell, job)

    def _make_ready(self, cell: ActorCell, job: Job) -> None:
        cell.ready.append(job)
        if cell.task is None and (cell.instance is not None or cell.failure is not None or job.message.do == MAKE):
            cell.task = self._loop.create_task(self._serve(cell), name=f"actor {cell.actor}")

    async def _serve(self, cell: ActorCell) -> None:
        """Run what is ready, one after the other."""
        count = 0
        try:
            while cell.ready and not cell.is_gone:
                job = cell.ready.popleft()
                if cell.instance is None and cell.failure is None and job.message.do != MAKE:
                    # Another lane has heard of the actor before it is made.
                    cell.ready.append(job)
                    job = next(found for found in cell.ready if found.message.do == MAKE)
                    cell.ready.remove(job)
                cell.running = job
                try:
                    await self._run(cell, job)
                except Exception as error:
                    logger.exception("a defect ended %s", job.message)
                    if not job.is_told:
                        self._outcomes.fail(job, CallRefusedError.code, f"a defect of the host: {type(error).__name__}")
                cell.running = None
                self._advance(cell, job.message.lane)
                count += 1
                if count % _YIELD_EVERY == 0:
                    await asyncio.sleep(0)
        except BaseException:
            if cell.running is not None and not cell.running.is_told:
                self._outcomes.cut_short(cell.running)
            # By what its code has done to its task: whoever waits for its other calls is told, too.
            self._remove(cell, f"actor {cell.actor} was ended by its own code")
            raise
        finally:
            cell.task = None

    def _advance(self, cell: ActorCell, lane_name: str) -> None:
        lane = cell.lanes[lane_name]
        lane.popleft()
        if not lane:
            del cell.lanes[lane_name]
        elif not lane[0].missing:
            cell.ready.append(lane[0])

    async def _run(self, cell: ActorCell, job: Job) -> None:
        message = job.message
        job.started_s = self._loop.time()
        if job.failures or (cell.failure is not None and message.do != STOP):
            failure = job.failures[min(job.failures)] if job.failures else cell.failure
            assert failure is not None
            passed = failure.passed_through(str(message))
            if message.do == MAKE:
                cell.failure = passed
            self._outcomes.commit(job, write_failure(passed))
        elif message.do == STOP:
            self._remove(cell, f"actor {cell.actor} was stopped")
            self._outcomes.commit(job, '{"ok":null}')
        else:
            await self._act(cell, job)

    async def _act(self, cell: ActorCell, job: Job) -> None:
        """Run the method, again after conflicts, and commit what came of it."""
        caller = self._port.find_caller(job.message)
        while True:
            job.attempts += 1
            job.message.attempt = job.attempts
            result = await self._methods.run(cell, job, caller, self._port.world)
            if caller.has_unsent:
                # Whoever gets a proxy of an actor with the outcome may call it: the order to make it goes first.
                await caller.flush()
            if result.late is not None:
                # It is told already; the actor is busy until the function has come to its end.
                self._outcomes.commit(job, result.text)
                await asyncio.wait({result.late})
                return
            if result.effects is None and result.placeholders:
                self._finish_later(job, result)
                return
            text = await result.resolve()
            if result.effects is None:
                self._outcomes.commit(job, text)
                return
            conflict = await self._outcomes.commit_effects(job, text, result.effects)
            if conflict is None:
                return
            if job.attempts > job.message.retry or not isinstance(conflict, AbortedError):
                self._outcomes.fail(job, EffectsConflictError.code, f"its effects could not be taken: {conflict}")
                return
            await asyncio.sleep(self._chance.uniform(0, bound_wait_ms(job.attempts)) / 1000)

    def _finish_later(self, job: Job, result: MethodResult) -> None:
        """The method has returned placeholders: the actor is free, the call ends when those are there."""

        async def finish() -> None:
            try:
                text = await result.resolve()
            except asyncio.CancelledError:
                self._outcomes.cut_short(job)
                raise
            self._outcomes.commit(job, text)

        self._finishing.begin(finish(), f"result of {job.message}")

    def _remove(self, cell: ActorCell, refusal: str = "") -> None:
        """An actor goes, and whoever waits for its calls is told; `refusal`: why, if it was asked for."""
        if cell.is_gone:
            return
        cell.is_gone = True
        self._cells.pop(cell.actor, None)
        current = asyncio.current_task()
        if cell.task is not None and cell.task is not current:
            cell.task.cancel()
        for lane in cell.lanes.values():
            for job in lane:
                if job is cell.running:
                    pass  # its task is told
                elif refusal:
                    self._outcomes.fail(job, CallRefusedError.code, refusal)
                else:
                    self._outcomes.cut_short(job)


def bound_wait_ms(attempts: int) -> float:
    """Within what time whoever lost to another comes back: the longer, the more there seem to be."""
    return min(CONFLICT_WAIT_MS_MAX, CONFLICT_WAIT_FIRST_MS * 2.0 ** min(attempts - 1, 10))
