"""A caller: whoever sends calls within a flow, a script or a host on behalf of its actors' methods.

    proxy.method(...) ─► call: number, message ─► outgoing ─► link.send ─► host
    placeholder ◄─ take_outcome ◄─ link ◄─ the world, or the stage of a local flow

Calls may come from any thread; everything else happens in one loop.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from ecumene.workflows.actors import name_actor_class
from ecumene.workflows.call_table import CallTable, FlowStatistics
from ecumene.workflows.calls import CALL, MAKE, STOP, Call
from ecumene.workflows.composing import compose, fill_number
from ecumene.workflows.errors import Failure, ResultLostError, to_error
from ecumene.workflows.known_actors import KnownActors
from ecumene.workflows.limits import FlowLimits, check_options
from ecumene.workflows.links import Link
from ecumene.workflows.messages import (
    is_failure,
    large_bytes,
    mark_resent,
    place_failure,
    read_outcome,
    write_failure,
)
from ecumene.workflows.outgoing import Outgoing
from ecumene.workflows.placeholders import Placeholder
from ecumene.workflows.placing import Placing
from ecumene.workflows.proxies import Proxy
from ecumene.workflows.runs import running
from ecumene.workflows.targets import Maker, Target
from ecumene.workflows.values import Packing, Tree

logger = logging.getLogger("ecumene.workflows")


class Caller:
    """Sends calls and keeps what comes of them."""

    def __init__(self, flow: str, name: str, limits: FlowLimits, loop: asyncio.AbstractEventLoop) -> None:
        self.flow = flow
        self.name = name
        self.loop = loop
        self.placing = Placing(self, limits)
        self.known = KnownActors(self)
        self._table = CallTable(limits)
        self._lock = threading.Lock()
        """Held for moments. Never taken by what the garbage collector may call."""
        self._outgoing = Outgoing(loop, self.send, self._let_go)
        self._link: Link | None = None
        self._end: Failure | None = None
        self._actors = 0
        self._idle: list[asyncio.Future[None]] = []

    def make(
        self,
        cls: type,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        *,
        host: str = "",
        retry: int = 0,
        timeout_s: float | None = None,
    ) -> Proxy:
        """Have an actor made; a failure of its constructor is the failure of its calls. From any thread.

        Raises:
            NoHostError: there is none, or not that one.
            ValueRefusedError: the arguments cannot be sent.
            ValueError: no such `retry` or `timeout_s`.
        """
        check_options(retry, timeout_s)
        name = name_actor_class(cls)
        packing = Packing(self.known.describe)
        inner = packing.pack([list(args), kwargs])
        with self._lock:
            self._actors += 1
            actor = f"{self.flow}.{self.name}.{self._actors}"
        maker = Maker(inner, packing.placeholders) if retry else None
        target = Target(actor, self.placing.choose(host), name, cls, retry, timeout_s, maker)
        self.known.add(target, cls)
        self._submit(target, MAKE, "", inner, packing.placeholders)
        return Proxy(self, target, retry, timeout_s)

    def call(
        self,
        target: Target,
        method: str,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        retry: int,
        timeout_s: float | None,
    ) -> Placeholder:
        """Send a call. From any thread.

        Raises:
            ValueRefusedError: the arguments cannot be sent.
            FlowFullError: the flow's bounds are reached.
            FlowLostError: it has ended.
        """
        packing = Packing(self.known.describe)
        inner = packing.pack([list(args), kwargs] if kwargs else [list(args)])
        return self._submit(target, CALL, method, inner, packing.placeholders, retry, timeout_s)

    def stop(self, proxy: Proxy) -> None:
        """Let an actor go when the calls sent so far are done. From any thread."""
        proxy._target.maker = None
        self._submit(proxy._target, STOP, "", [[]], [])

    @property
    def has_unsent(self) -> bool:
        """Whether calls are not on their way yet."""
        return bool(self._outgoing)

    @property
    def has_ended(self) -> bool:
        """Whether its flow has."""
        return self._end is not None

    def add_waiter(self, call: Call, then: Callable[[], None]) -> bool:
        """Have something called in this loop when a call has ended; False = it has. From any thread."""
        with self._lock:
            if not call.is_done:
                call.waiters.append(then)
            return not call.is_done

    def statistics(self) -> FlowStatistics:
        """How it is doing. From any thread."""
        with self._lock:
            return self._table.statistics(len(self.placing.hosts))

    def when_used(self, then: Callable[[], None]) -> None:
        """Have something called in the loop when the first call waits for a link."""
        self._outgoing.when_used(then)

    def attach(self, link: Link) -> None:
        """Calls can be sent from now on. This and all that follows: in the loop."""
        self._link = link
        self._outgoing.open()

    async def flush(self) -> None:
        """Until all calls so far are on their way, in front of whatever is sent from now on; or never will be."""
        await self._outgoing.flush()

    def take_outcome(self, number: int, text: str) -> None:
        """A call has ended. Only its first outcome counts."""
        large = large_bytes(text)
        with self._lock:
            call = self._table.get(number)
            if call is None or call.is_done:
                return
            gone = self._table.finish(call, None if large else text, large)
            waiters, call.waiters = call.waiters, []
        for waiter in waiters:
            waiter()
        if is_failure(text):
            self._note_failure(call, text)
        if gone and self._link is not None:
            self._link.release(gone)
        if self._idle and not self._table.pending:
            for future in self._idle:
                if not future.done():
                    future.set_result(None)

    def lose_result(self, number: int) -> None:
        """Somebody has deleted a result that is still referred to: whoever needs it is told."""
        call = self._table.get(number)
        if call is None or not call.is_done or not call.size or self._link is None:
            return
        text = write_failure(place_failure(Failure(ResultLostError.code, f"the result of {call} was deleted"), call))
        call.text = text
        self._link.give_up(call, text)

    def find(self, number: int) -> Call | None:
        """A call under way or referred to."""
        return self._table.get(number)

    def list_pending(self, target: Target) -> list[Call]:
        """Calls on an actor that have no outcome yet, in their order."""
        with self._lock:
            return [call for call in self._table.list_pending() if call.target is target]

    def lose_host(self, place: str) -> None:
        """The host at a place has ended: its actors with it."""
        with self._lock:
            pending = self._table.list_pending()
        targets = {call.target for call in pending} | self.known.list_targets()
        for target in sorted(targets, key=lambda target: target.actor):
            self.placing.lose(target, place)

    def make_again(self, target: Target) -> None:
        """Have an actor made where its target says."""
        assert target.maker is not None
        self._submit(target, MAKE, "", target.maker.inner, target.maker.placeholders, is_first=True)

    def send(self, call: Call) -> None:
        """Send a call to where its target is now."""
        failure = call.target.failure
        if failure is not None and not call.is_making:
            self.give_up(call, failure)
            return
        call.sent_to = call.target.host
        if not self.placing.is_homeless(call.target):
            assert call.text is not None and self._link is not None
            text = mark_resent(call.text, call.resent) if call.resent else call.text
            self._link.send(call, call.sent_to, text)

    def give_up(self, call: Call, failure: Failure) -> None:
        """A call is not to have another outcome than this, unless it has one already."""
        if self._link is not None and not call.is_done:
            # The one outcome that counts is in the world: the host may have been first.
            self._link.give_up(call, write_failure(place_failure(failure, call)))

    async def fetch(self, call: Call) -> str:
        """A large outcome."""
        assert self._link is not None
        return await self._link.fetch(call)

    def end(self, failure: Failure) -> None:
        """No more calls; those under way have failed."""
        with self._lock:
            self._end = self._end or failure
            self._outgoing.clear()
            pending = self._table.list_pending()
        self._outgoing.end_flushing()
        for call in pending:
            self.take_outcome(call.number, write_failure(place_failure(failure, call)))

    async def wait_idle(self, timeout_s: float) -> int:
        """Wait until no call is under way, at most so long; returns how many still are."""
        idle: asyncio.Future[None] = self.loop.create_future()
        if self._table.pending:
            self._idle.append(idle)
            await asyncio.wait({idle}, timeout=timeout_s)
            self._idle.remove(idle)
        return self._table.pending

    def _submit(
        self,
        target: Target,
        do: str,
        method: str,
        inner: Tree,
        placeholders: list[Placeholder],
        retry: int = 0,
        timeout_s: float | None = None,
        *,
        is_first: bool = False,
    ) -> Placeholder:
        """Number a call and have it sent after those before it; with `is_first`, at once."""
        run = running.get()
        lane = run.actor if run is not None and not is_first else ""
        head = compose(self, target, do, method, inner, placeholders, lane, retry, timeout_s)
        with self._lock:
            if self._end is not None:
                raise to_error(self._end)
            # The number is taken last, so that calls leave in its order whatever thread they come from.
            number = self._table.next_number()
            text = fill_number(head, number)
            call = Call(self, number, target, do, method, text, placeholders, retry)
            self._table.add(call)
            if not is_first:
                self._outgoing.add(call)
        if is_first:
            self.send(call)
        placeholder = Placeholder(call)
        weakref.finalize(placeholder, self._outgoing.drop, number).atexit = False
        return placeholder

    def _let_go(self, numbers: list[int]) -> None:
        """Placeholders are gone: what nobody needs any more is not kept, here or elsewhere."""
        with self._lock:
            gone = self._table.drop(numbers)
        if gone and self._link is not None:
            self._link.release(gone)

    def _note_failure(self, call: Call, text: str) -> None:
        failure = read_outcome(text).failure
        if failure is None:
            return
        if call.is_making:
            call.target.failure = call.target.failure or failure
        elif call.is_dropped:
            logger.warning("a call that nobody waited for failed: %s", failure.describe())
