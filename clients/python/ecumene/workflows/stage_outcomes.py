"""What calls of a stage come to: written by its port, then told, each once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from ecumene.workflows.cells import FinishedCall, Job, StagePort
from ecumene.workflows.errors import Failure, FlowLostError, Origin
from ecumene.workflows.messages import Message, is_failure, read_outcome, write_failure

if TYPE_CHECKING:
    from ecumene.client import Writes


class StageOutcomes:
    """Of one stage."""

    def __init__(self, host: str, port: StagePort, forget: Callable[[Message], None]) -> None:
        """`forget`: a call waits here no more."""
        self._loop = asyncio.get_running_loop()
        self._host = host
        self._port = port
        self._forget = forget
        self.is_closing = False
        """Calls under way get no outcome any more: the end of the host's lease tells of them."""

    def commit(self, job: Job, text: str) -> None:
        """A call has come to this, and had no effects."""
        job.is_told = True
        self._port.commit(job.message, text, None, lambda error: self._end(job, text, 0))

    def fail(self, job: Job, code: str, problem: str) -> None:
        """A call has failed, with its actor as the origin."""
        message = job.message
        origin = Origin(message.actor, message.class_name, message.method, self._host)
        self.commit(job, write_failure(Failure(code, problem, origin=origin)))

    def cut_short(self, job: Job) -> None:
        """A call is not going to end: its actor is gone with what made it, or the host is, which its lease tells."""
        message = job.message
        if not self.is_closing:
            self.fail(job, FlowLostError.code, f"what made actor {message.actor} has ended")
            return
        job.is_told = True
        self._end(job, write_failure(Failure(FlowLostError.code, f"host {self._host} has ended")), 0)

    async def commit_effects(self, job: Job, text: str, effects: Writes) -> Exception | None:
        """Write an outcome together with effects; the conflict, if they could not be taken."""
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
            self.cut_short(job)

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
