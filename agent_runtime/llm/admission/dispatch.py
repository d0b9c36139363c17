"""Where calls wait for their turn: in one order, for an endpoint and for all limits at once."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from agent_runtime.llm.admission.limits import Limit, Load, Permit
from agent_runtime.llm.endpoints import Pool
from agent_runtime.llm.errors import ModelBrokenError, ModelError
from agent_runtime.model.errors import BudgetExceededError

WAIT_MIN_S = 0.001


class _Waiting(NamedTuple):
    permit: asyncio.Future[Permit]
    load: Load
    deadline_s: float


class Dispatch:
    """Lets calls in, first come, first served; those that were in before and try again stand in front.

    The first in the queue goes to an endpoint as soon as one takes a call and every limit lets it pass;
    nobody overtakes it, so that a large request is not starved by small ones. A call whose deadline comes
    before the next probe of endpoints that all are broken, or want to be left alone, fails at once. Belongs to one
    event loop.
    """

    def __init__(self, model: str, pool: Pool, limits: Sequence[Limit], clock: Callable[[], float]) -> None:
        self._model = model
        self._pool = pool
        self._limits = tuple(limits)
        self._clock = clock
        self._fresh: deque[_Waiting] = deque()
        self._again: deque[_Waiting] = deque()
        self._cancelled = 0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def waiting(self) -> int:
        """Calls that wait."""
        return len(self._fresh) + len(self._again) - self._cancelled

    def try_acquire(self, load: Load) -> Permit | None:
        """A permit if there is one now and nobody waits.

        Raises:
            ModelRateError, BudgetExceededError: there will never be one.
        """
        return None if self._fresh or self._again else self._grant(load, self._clock())

    async def acquire(self, load: Load, deadline_s: float, *, is_repeated: bool = False) -> Permit:
        """A permit, once there is one. See `queue`."""
        permit = self.queue(load, deadline_s=deadline_s, is_repeated=is_repeated)
        try:
            return await permit
        except asyncio.CancelledError:
            self.give_up(permit)
            raise

    def queue(self, load: Load, *, deadline_s: float, is_repeated: bool = False) -> asyncio.Future[Permit]:
        """What is done once there is a permit, or fails as `try_acquire` does, or with ModelBrokenError.

        Await it; if that is cancelled, `give_up` it.
        """
        permit: asyncio.Future[Permit] = asyncio.get_running_loop().create_future()
        queue = self._again if is_repeated else self._fresh
        queue.append(_Waiting(permit, load, deadline_s))
        self._fail_hopeless()
        if self._head() is queue and len(queue) == 1:
            self.pump()
        return permit

    def give_up(self, permit: asyncio.Future[Permit]) -> None:
        """Ends the wait of a caller who was cancelled."""
        if not permit.cancelled():
            if permit.exception() is None:
                # Let in and cancelled in the same step: it never left.
                self.release(permit.result(), Load(), asyncio.CancelledError())
            return
        self._cancelled += 1
        if self._cancelled * 2 > len(self._fresh) + len(self._again):
            self._forget_cancelled()
        self.pump()

    def release(self, permit: Permit, load: Load, error: BaseException | None) -> None:
        """A call has come back; `load` is what it did cost, `error` how it failed."""
        now_s = permit.released_s = self._clock()
        if error is None:
            permit.endpoint.note_answer()
        else:
            permit.endpoint.note_error(error, now_s, permit.granted_s)
        for limit in self._limits:
            limit.settle(permit, load)
        permit.tokens, permit.microdollars = load.tokens, load.microdollars
        if self._fresh or self._again:
            self._fail_hopeless()
            self.pump()

    def pump(self) -> None:
        """Lets in whoever may go now, and sets a timer for the next."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        now_s = self._clock()
        while queue := self._head():
            waiting = queue[0]
            if waiting.permit.done():
                queue.popleft()
                self._cancelled -= waiting.permit.cancelled()
                continue
            try:
                permit = self._grant(waiting.load, now_s)
            except (ModelError, BudgetExceededError) as error:
                waiting.permit.set_exception(error)
                continue
            if permit is None:
                self._arm(waiting.load, now_s)
                return
            waiting.permit.set_result(permit)

    def close(self) -> None:
        """No timer any more. Nobody may wait."""
        if self._timer is not None:
            self._timer.cancel()

    def _head(self) -> deque[_Waiting]:
        """The queue whose first is the next."""
        return self._again or self._fresh

    def _forget_cancelled(self) -> None:
        for queue in (self._again, self._fresh):
            left = [waiting for waiting in queue if not waiting.permit.cancelled()]
            queue.clear()
            queue.extend(left)
        self._cancelled = 0

    def _grant(self, load: Load, now_s: float) -> Permit | None:
        for limit in self._limits:
            if limit.wait_s(load, now_s) != 0.0:
                return None
        endpoint = self._pool.enter(now_s)
        if endpoint is None:
            return None
        permit = Permit(endpoint, load.tokens, load.microdollars, now_s)
        for limit in self._limits:
            limit.admit(permit)
        return permit

    def _arm(self, load: Load, now_s: float) -> None:
        """Looks again when the first in the queue may go; None of a limit or the pool: somebody will call."""
        waits = [self._pool.wait_s(now_s), *(limit.wait_s(load, now_s) for limit in self._limits)]
        known = [wait_s for wait_s in waits if wait_s is not None]
        if len(known) < len(waits):
            return
        delay_s = max(WAIT_MIN_S, *known)
        self._timer = asyncio.get_running_loop().call_later(delay_s, self.pump)

    def _fail_hopeless(self) -> None:
        """Ends the wait of those who would wait for endpoints that are broken or paused beyond their deadline."""
        now_s = self._clock()
        dead_s = self._pool.find_dead_s(now_s)
        if dead_s is None:
            return
        names = tuple(endpoint.name for endpoint in self._pool.endpoints)
        for waiting in (*self._again, *self._fresh):
            if waiting.deadline_s < now_s + dead_s and not waiting.permit.done():
                waiting.permit.set_exception(ModelBrokenError(self._model, names, dead_s))
