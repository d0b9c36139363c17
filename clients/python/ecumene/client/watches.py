"""Readers of watches: whole batches for speed, single events for ease."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Self

from ecumene.client.event_batch import Event, EventBatch
from ecumene.client.session import Session
from ecumene.client.watch_feed import WatchFeed, WatchStatistics


class FrameWatch:
    """Batches of events: in order, without gap, without duplicate, over reconnects too.

    It begins when it is made, not when it is first read. A reader that stops reading stops the server's sending:
    what is unread is bounded by ClientSettings.watch_events_max and watch_bytes_max. One reader at a time. End it
    with `async with`, `aclose`, or by dropping it.

    Iterating raises:
        RevisionCompactedError: events from the revision asked for on are no longer kept; nothing was skipped.
        InitialStateInterruptedError: the connection broke after a part of the initial state was read.
        EcumeneError: the server ended the watch, or the session ended.
    """

    def __init__(self, session: Session, feed: WatchFeed) -> None:
        self._session = session
        self._feed = feed
        session.watches.add(feed)
        loop = asyncio.get_running_loop()
        self._abandoned = weakref.finalize(self, _abandon, loop, session, feed)
        self._abandoned.atexit = False

    @property
    def resume_revision(self) -> int:
        """Revision from which a new watch would continue after the last batch read; 0 = not known yet."""
        return self._feed.resume_revision

    @property
    def history(self) -> str:
        """Line of revisions that `resume_revision` belongs to."""
        return self._session.history

    def statistics(self) -> WatchStatistics:
        """How full it is."""
        return self._feed.statistics()

    def call_on_mark(self, call: Callable[[], None] | None) -> None:
        """Have this called when `resume_revision` has grown although nothing came to be read."""
        self._feed.on_mark = call

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> EventBatch:
        frame = await self._feed.next_frame()
        if frame is None:
            raise StopAsyncIteration
        self._session.watches.after_read(self._feed)
        return EventBatch(frame, self._session.world)

    async def aclose(self) -> None:
        """End the watch; whoever reads it sees its end."""
        self._abandoned.detach()
        self._session.watches.cancel(self._feed)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class Watch:
    """Single events of a FrameWatch, with its guarantees and errors.

    watch = room.watch(initial_state=True)
    async for event in watch.initial_state(): ...  # ends when the state is complete
    async for event in watch: ...
    """

    def __init__(self, frames: FrameWatch) -> None:
        self._frames = frames
        self._rows: Iterator[Event] = iter(())
        self._rows_are_initial = False
        self.synced_revision: int = 0
        """The initial state was the state at this revision; 0 = not known before its last batch is read."""

    def statistics(self) -> WatchStatistics:
        """How full it is."""
        return self._frames.statistics()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        while (event := self.try_next()) is None:
            await self._read_batch()
        return event

    def try_next(self) -> Event | None:
        """The next event of the batch at hand, without waiting; None = the next one must be awaited."""
        return next(self._rows, None)

    def initial_state(self) -> InitialState:
        """Events of type INITIAL up to the end of the initial state; later events stay for the watch itself."""
        return InitialState(self)

    async def aclose(self) -> None:
        """End the watch."""
        await self._frames.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def _try_next_initial(self) -> Event | None:
        """`try_next`, if it belongs to the initial state."""
        return self.try_next() if self._rows_are_initial else None

    async def _read_batch(self) -> None:
        """Wait for the next batch; what is left of the one at hand is dropped."""
        batch = await self._frames.__anext__()
        self._rows_are_initial = not self.synced_revision
        self.synced_revision = batch.synced_revision or self.synced_revision
        self._rows = iter(batch)


class InitialState:
    """The first part of a watch: it ends when the initial state is complete, or the watch is."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        watch = self._watch
        while (event := watch._try_next_initial()) is None:
            if watch.synced_revision:
                raise StopAsyncIteration
            await watch._read_batch()
        return event

    def try_next(self) -> Event | None:
        """The next event of the batch at hand, without waiting; None = the next one must be awaited."""
        return self._watch._try_next_initial()


def _abandon(loop: asyncio.AbstractEventLoop, session: Session, feed: WatchFeed) -> None:
    """Cancel the watch of a reader that was dropped; the collector may run in any thread."""
    if not loop.is_closed():
        loop.call_soon_threadsafe(session.watches.cancel, feed)
