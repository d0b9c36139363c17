"""The stage: runs actors, each one call at a time: calls of one lane in order, others as their arguments are there.

take ─► seat's lanes ─► (refs there?) ─► ready ─► method, in the loop or in a thread ─► outcome ─► port.commit
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from typing import TYPE_CHECKING

from ecumene.client import AbortedError
from ecumene.workflows.acting import CANCEL_GRACE_S, Acted, Acting, FindClass
from ecumene.workflows.background import Background
from ecumene.workflows.calls import MAKE, STOP
from ecumene.workflows.errors import CallRefusedError, EffectsConflictError, Failure, FlowLostError, Origin
from ecumene.workflows.limits import StageLimits
from ecumene.workflows.messages import Message, is_failure, read_outcome, write_failure
from ecumene.workflows.seats import FinishedCall, Job, Seat, StagePort
from ecumene.workflows.threads import Threads
from ecumene.workflows.waits import Elsewhere, WaitTable

if TYPE_CHECKING:
    from ecumene.client import Writes

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
        self._host = host
        self._port = port
        self._limits = limits
        self._chance = chance
        self._threads = Threads(limits)
        self.waits = WaitTable(self._threads, limits.circle_check_s, elsewhere)
        self._acting = Acting(host, self._threads, self.waits, find_class)
        self._seats: dict[str, Seat] = {}
        self._waiting = 0
        self._waiting_bytes = 0
        self._is_closing = False
        # What they wait for has its own end, and they commit whatever that is.
        self._finishing = Background(lambda error: None)
        self._idle: asyncio.Event = asyncio.Event()
        self._idle.set()

    @property
    def actors(self) -> int:
        """Actors that live here."""
        return len(self._seats)

    @property
    def waiting(self) -> int:
        """Calls taken and not finished."""
        return self._waiting

    def take(self, message: Message) -> None:
        """Take a call; what cannot be run gets its outcome at once."""
        job = Job(message, self._loop.time())
        self._waiting += 1
        self._waiting_bytes += message.size
        self._idle.clear()
        refusal = self._find_refusal(message)
        if refusal:
            self._fail(job, CallRefusedError.code, refusal)
            return
        seat = self._seats.get(message.actor)
        if seat is None:
            made_for = (message.flow, message.caller)
            seat = self._seats[message.actor] = Seat(message.actor, message.class_name, made_for, message.life)
        if message.do != STOP:
            job.turn = seat.turns = seat.turns + 1
        lane = seat.lanes.setdefault(message.lane, deque())
        lane.append(job)
        if job.missing:
            self._port.need(message, lambda place, text: self._take_ref(seat, job, place, text))
        elif len(lane) == 1:
            self._make_ready(seat, job)

    def drop(self, flow: str, caller: str = "") -> None:
        """A flow has ended, or one of its callers: its actors go, and nobody waits for their calls."""
        for seat in list(self._seats.values()):
            if seat.made_for[0] == flow and caller in ("", seat.made_for[1]):
                self._remove(seat)

    async def wait_idle(self, timeout_s: float) -> bool:
        """Wait until no call is under way, at most so long; whether that is so."""
        try:
            await asyncio.wait_for(self._idle.wait(), timeout_s)
        except TimeoutError:
            return False
        return True

    async def close(self) -> None:
        """End everything; calls under way get no outcome. Functions that run in threads are left to their end."""
        tasks = {seat.task for seat in self._seats.values() if seat.task is not None}
        self._is_closing = True
        for seat in list(self._seats.values()):
            self._remove(seat)
        if tasks:
            # What takes no notice of its end is left to its host's.
            await asyncio.wait(tasks, timeout=CANCEL_GRACE_S)
        await self._finishing.close()
        await self.waits.close()
        self._threads.close()

    def _find_refusal(self, message: Message) -> str:
        limits, is_known = self._limits, message.actor in self._seats
        if self._waiting > limits.calls_waiting_max:
            return (
                f"{self._waiting - 1} calls wait on host {self._host}; calls_waiting_max is {limits.calls_waiting_max}"
            )
        if self._waiting_bytes > limits.calls_bytes_max:
            return (
                f"calls that wait on host {self._host} take more than calls_bytes_max, {limits.calls_bytes_max} bytes"
            )
        if message.do == MAKE:
            if len(self._seats) >= limits.actors_max:
                return f"{len(self._seats)} actors live on host {self._host}; actors_max is {limits.actors_max}"
            return f"actor {message.actor} lives on host {self._host} already" if is_known else ""
        return "" if is_known else f"actor {message.actor} does not live on host {self._host}"

    def _take_ref(self, seat: Seat, job: Job, place: int, text: str) -> None:
        if job.is_told:
            return  # its actor is gone
        limits = self._limits
        if self._waiting_bytes + len(text) > limits.calls_bytes_max:
            problem = f"arguments of calls that wait on host {self._host} take more than calls_bytes_max"
            job.failures[place] = Failure(CallRefusedError.code, f"{problem}, {limits.calls_bytes_max} bytes")
            text = ""
        self._waiting_bytes += len(text)
        job.message.size += len(text)
        if text:
            outcome = read_outcome(text)
            if outcome.failure is not None:
                job.failures[place] = outcome.failure
            else:
                job.refs[place] = outcome.tree
        job.missing -= 1
        if not job.missing and not seat.is_gone and seat.lanes[job.message.lane][0] is job:
            self._make_ready(seat, job)

    def _make_ready(self, seat: Seat, job: Job) -> None:
        seat.ready.append(job)
        if seat.task is None and (seat.instance is not None or seat.failure is not None or job.message.do == MAKE):
            seat.task = self._loop.create_task(self._serve(seat), name=f"actor {seat.actor}")

    async def _serve(self, seat: Seat) -> None:
        """Run what is ready, one after the other."""
        count = 0
        try:
            while seat.ready and not seat.is_gone:
                job = seat.ready.popleft()
                if seat.instance is None and seat.failure is None and job.message.do != MAKE:
                    # Another lane has heard of the actor before it is made.
                    seat.ready.append(job)
                    job = next(found for found in seat.ready if found.message.do == MAKE)
                    seat.ready.remove(job)
                seat.running = job
                try:
                    await self._run(seat, job)
                except Exception as error:
                    logger.exception("a defect ended %s", job.message)
                    if not job.is_told:
                        self._fail(job, CallRefusedError.code, f"a defect of the host: {type(error).__name__}")
                seat.running = None
                self._advance(seat, job.message.lane)
                count += 1
                if count % _YIELD_EVERY == 0:
                    await asyncio.sleep(0)
        except BaseException:
            if seat.running is not None and not seat.running.is_told:
                self._cut_short(seat.running)
            # By what its code has done to its task: whoever waits for its other calls is told, too.
            self._remove(seat, f"actor {seat.actor} was ended by its own code")
            raise
        finally:
            seat.task = None

    def _advance(self, seat: Seat, lane_name: str) -> None:
        lane = seat.lanes[lane_name]
        lane.popleft()
        if not lane:
            del seat.lanes[lane_name]
        elif not lane[0].missing:
            seat.ready.append(lane[0])

    async def _run(self, seat: Seat, job: Job) -> None:
        message = job.message
        job.started_s = self._loop.time()
        if job.failures or (seat.failure is not None and message.do != STOP):
            failure = job.failures[min(job.failures)] if job.failures else seat.failure
            assert failure is not None
            passed = failure.passed_through(str(message))
            if message.do == MAKE:
                seat.failure = passed
            self._commit(job, write_failure(passed))
        elif message.do == STOP:
            self._remove(seat, f"actor {seat.actor} was stopped")
            self._commit(job, '{"ok":null}')
        else:
            await self._act(seat, job)

    async def _act(self, seat: Seat, job: Job) -> None:
        """Run the method, again after conflicts, and commit what came of it."""
        caller = self._port.find_caller(job.message)
        while True:
            job.attempts += 1
            job.message.attempt = job.attempts
            acted = await self._acting.act(seat, job, caller, self._port.world)
            if caller.has_unsent:
                # Whoever gets a proxy of an actor with the outcome may call it: the order to make it goes first.
                await caller.flush()
            if acted.late is not None:
                # It is told already; the actor is busy until the function has come to its end.
                self._commit(job, acted.text)
                await asyncio.wait({acted.late})
                return
            if acted.effects is None and acted.placeholders:
                self._finish_later(job, acted)
                return
            text = await acted.resolve()
            if acted.effects is None:
                self._commit(job, text)
                return
            conflict = await self._commit_effects(job, text, acted.effects)
            if conflict is None:
                return
            if job.attempts > job.message.retry or not isinstance(conflict, AbortedError):
                self._fail(job, EffectsConflictError.code, f"its effects could not be taken: {conflict}")
                return
            await asyncio.sleep(self._chance.uniform(0, bound_wait_ms(job.attempts)) / 1000)

    def _finish_later(self, job: Job, acted: Acted) -> None:
        """The method has returned placeholders: the actor is free, the call ends when those are there."""

        async def finish() -> None:
            try:
                text = await acted.resolve()
            except asyncio.CancelledError:
                self._cut_short(job)
                raise
            self._commit(job, text)

        self._finishing.begin(finish(), f"result of {job.message}")

    async def _commit_effects(self, job: Job, text: str, effects: Writes) -> Exception | None:
        committed: asyncio.Future[Exception | None] = self._loop.create_future()

        def then(error: Exception | None) -> None:
            if not committed.done():
                committed.set_result(error)

        job.is_told = True
        self._port.commit(job.message, text, effects, then)
        try:
            conflict = await asyncio.shield(committed)
        except asyncio.CancelledError:
            committed.add_done_callback(lambda done: self._end_late(job, text, effects, done.result()))
            raise
        if conflict is None:
            self._end(job, text, len(effects))
        return conflict

    def _end_late(self, job: Job, text: str, effects: Writes, conflict: Exception | None) -> None:
        """What came of effects whose actor was gone before that was known."""
        if conflict is None:
            self._end(job, text, len(effects))
        else:
            self._cut_short(job)

    def _cut_short(self, job: Job) -> None:
        """A call is not going to end: its actor is gone with what made it, or the host is, which its lease tells."""
        message = job.message
        if not self._is_closing:
            self._fail(job, FlowLostError.code, f"what made actor {message.actor} has ended")
            return
        job.is_told = True
        self._end(job, write_failure(Failure(FlowLostError.code, f"host {self._host} has ended")), 0)

    def _commit(self, job: Job, text: str) -> None:
        job.is_told = True
        self._port.commit(job.message, text, None, lambda error: self._end(job, text, 0))

    def _fail(self, job: Job, code: str, problem: str) -> None:
        message = job.message
        origin = Origin(message.actor, message.class_name, message.method, self._host)
        self._commit(job, write_failure(Failure(code, problem, origin=origin)))

    def _end(self, job: Job, text: str, effects: int) -> None:
        message = job.message
        self._forget(message)
        failure = read_outcome(text).failure if is_failure(text) else None
        now = self._loop.time()
        self._port.record(
            FinishedCall(
                flow=message.flow,
                caller=message.caller,
                number=message.number,
                lane=message.lane,
                actor=message.actor,
                class_name=message.class_name,
                method=message.method,
                do=message.do,
                turn=job.turn,
                revision=message.revision,
                observed_at_ns=message.observed_at_ns,
                failure=failure,
                attempts=job.attempts,
                arrived_s=job.arrived_s,
                started_s=job.started_s or now,
                ended_s=now,
                result_bytes=len(text),
                effects=effects,
            )
        )

    def _forget(self, message: Message) -> None:
        self._waiting -= 1
        self._waiting_bytes -= message.size
        if not self._waiting:
            self._idle.set()

    def _remove(self, seat: Seat, refusal: str = "") -> None:
        """An actor goes, and whoever waits for its calls is told; `refusal`: why, if it was asked for."""
        if seat.is_gone:
            return
        seat.is_gone = True
        self._seats.pop(seat.actor, None)
        current = asyncio.current_task()
        if seat.task is not None and seat.task is not current:
            seat.task.cancel()
        for lane in seat.lanes.values():
            for job in lane:
                if job is seat.running:
                    pass  # its task is told
                elif refusal:
                    self._fail(job, CallRefusedError.code, refusal)
                else:
                    self._cut_short(job)


def bound_wait_ms(attempts: int) -> float:
    """Within what time whoever lost to another comes back: the longer, the more there seem to be."""
    return min(CONFLICT_WAIT_MS_MAX, CONFLICT_WAIT_FIRST_MS * 2.0 ** min(attempts - 1, 10))
