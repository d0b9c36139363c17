"""What a session has to say, in order, and bounded.

    answers   at most as many frames as may be in flight (the reader stops reading beyond it), not encoded yet
    replies   at most REPLIES_MAX before the reader stops reading
    events    at most EVENTS_BYTES_MAX before the watches wait

So a client that stops reading costs these bounds and the transport's own buffer, and nobody waits for it.
"""

import asyncio
from collections import deque
from typing import Final, NamedTuple

from env_server.model.errors import WorldError
from env_server.model.frames import Answer

REPLIES_MAX: Final = 256
EVENTS_BYTES_MAX: Final = 4 * 1024 * 1024


class Events(NamedTuple):
    """An encoded event frame, told from other replies by its type."""

    frame: bytes


Item = Answer | Events | bytes


class Outbox:
    """Queue between a session's parts and its one writer. All calls happen on the loop."""

    def __init__(self) -> None:
        self._items: deque[Item] = deque()
        self._waiting: asyncio.Future[None] | None = None
        self._ended = False
        self._error: WorldError | None = None
        self._events_bytes = 0
        self._replies = 0
        self._turn = asyncio.Lock()
        self._room = asyncio.Event()
        self._calm = asyncio.Event()

    def __len__(self) -> int:
        return len(self._items)

    def put(self, item: Item) -> None:
        """Adds an answer or an encoded reply. After the end: nothing."""
        if self._ended:
            return
        if type(item) is bytes:
            self._replies += 1
        self._items.append(item)
        self._wake()

    async def put_events(self, frame: bytes) -> None:
        """Adds an encoded event frame, once there is room for it; waiting callers are served in order."""
        await self.wait_for_room()
        self._append_events(frame)

    async def wait_for_room(self) -> None:
        """Returns when an event frame may be put at once, or after the end; waiting callers are served in order.

        Who waits here before encoding holds nothing meanwhile.
        """
        if self._events_bytes >= EVENTS_BYTES_MAX or self._turn.locked():
            async with self._turn:
                while self._events_bytes >= EVENTS_BYTES_MAX and not self._ended:
                    self._room.clear()
                    await self._room.wait()

    async def wait_until_calm(self) -> None:
        """Returns when fewer than REPLIES_MAX replies are waiting, or after the end."""
        while self._replies >= REPLIES_MAX and not self._ended:
            self._calm.clear()
            await self._calm.wait()

    async def take(self) -> Item | None:
        """The next item; None after the end, once everything put before it has been taken.

        Raises:
            WorldError: the stream was ended with it; what was still waiting is dropped.
        """
        while not self._items:
            if self._ended:
                if self._error is not None:
                    raise self._error
                return None
            self._waiting = asyncio.get_running_loop().create_future()
            await self._waiting
        item = self._items.popleft()
        if type(item) is Events:
            self._events_bytes -= len(item.frame)
            self._room.set()
        elif type(item) is bytes:
            self._replies -= 1
            self._calm.set()
        return item

    def end(self, error: WorldError | None = None) -> None:
        """Ends the queue: after what is in it, or at once with an error. Calls after the first change nothing."""
        if self._ended:
            return
        self._ended = True
        self._error = error
        if error is not None:
            self._items.clear()
        self._room.set()
        self._calm.set()
        self._wake()

    def _append_events(self, frame: bytes) -> None:
        if self._ended:
            return
        self._items.append(Events(frame))
        self._events_bytes += len(frame)
        self._wake()

    def _wake(self) -> None:
        waiting = self._waiting
        if waiting is not None:
            self._waiting = None
            if not waiting.done():
                waiting.set_result(None)
