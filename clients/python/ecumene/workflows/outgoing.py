"""What a caller's threads and the garbage collector leave for its loop: calls to be sent, results to be let go."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from ecumene.workflows.calls import Call


class Outgoing:
    """Calls in their order, and numbers of calls that nobody refers to any more. Held up until it is opened."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        send: Callable[[Call], None],
        let_go: Callable[[list[int]], None],
    ) -> None:
        """`send` and `let_go` are called in the loop."""
        self._loop = loop
        self._send = send
        self._let_go = let_go
        self._calls: deque[Call] = deque()
        self._dropped: deque[int] = deque()
        self._wakes = False
        self._is_open = False
        self._first_use: Callable[[], None] | None = None
        self._flushing: list[asyncio.Future[None]] = []

    def __len__(self) -> int:
        return len(self._calls)

    def add(self, call: Call) -> None:
        """One more call. From any thread."""
        self._calls.append(call)
        self._wake()

    def drop(self, number: int) -> None:
        """Nobody refers to a call any more. From any thread, and from the garbage collector: no lock."""
        self._dropped.append(number)
        self._wake()

    def when_used(self, then: Callable[[], None]) -> None:
        """Have something called in the loop when the first call waits to be let out."""
        self._first_use = then

    def open(self) -> None:
        """Calls can be sent from now on. This and all that follows: in the loop."""
        self._is_open = True
        self._drain()
        self.end_flushing()

    async def flush(self) -> None:
        """Until all calls so far are on their way, in front of whatever is added from now on; or never will be."""
        self._drain()
        # Once it is open nothing is left by that, but what threads have added since: that is not waited for.
        while self._calls and not self._is_open:
            sent = self._loop.create_future()
            self._flushing.append(sent)
            await sent

    def clear(self) -> None:
        """What waits is not sent."""
        self._calls.clear()

    def end_flushing(self) -> None:
        """Whoever waits for calls to be on their way looks again."""
        flushing, self._flushing = self._flushing, []
        for sent in flushing:
            if not sent.done():
                sent.set_result(None)

    def _wake(self) -> None:
        if not self._wakes:
            self._wakes = True
            try:
                self._loop.call_soon_threadsafe(self._drain)
            except RuntimeError:
                pass  # the loop has ended, and everything with it

    def _drain(self) -> None:
        self._wakes = False
        if not self._is_open:
            first_use, self._first_use = self._first_use, None
            if first_use is not None:
                first_use()
            return
        while self._calls:
            self._send(self._calls.popleft())
        numbers = []
        while self._dropped:
            numbers.append(self._dropped.popleft())
        if numbers:
            self._let_go(numbers)
