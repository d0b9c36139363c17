"""One watch between the session, which fills it, and its reader, who empties it; it survives reconnects."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from env_api.v1 import events_pb2, session_pb2

from ecumene.client.errors import ClosedError, EcumeneError, InitialStateInterruptedError


@dataclass(frozen=True, slots=True)
class WatchStatistics:
    """How full a watch is."""

    events_unread: int
    bytes_unread: int
    is_ended: bool


@dataclass(slots=True)
class Credit:
    """Events and bytes that the server may send."""

    events: int = 0
    bytes: int = 0


class WatchFeed:
    """Frames received and not read yet, and where to go on after a broken connection.

    Memory is bounded: what is unread plus what the server may still send never exceeds the window, but for the
    one frame by which a server may overrun its credit.
    """

    def __init__(self, start: session_pb2.WatchStart, window: Credit, known_revision: int = 0) -> None:
        self._start = start
        self._known_revision = known_revision
        """The newest revision that was known when it was made."""
        self._window = window
        self.watch_id = 0
        """Its id on the stream at hand; 0 while it is not running there."""
        self.position = start.from_revision
        """The revision to go on from; 0 = not known yet."""
        self.in_initial_state = start.initial_state
        self.is_ended = False
        self._error: EcumeneError | None = None
        self._frames: deque[tuple[events_pb2.EventFrame, int]] = deque()
        self._unread = Credit()
        self._owed = Credit()
        self._was_read = False
        self._arrival: asyncio.Future[None] | None = None
        self.on_mark: Callable[[], None] | None = None
        """Called when the server says that there is nothing more up to a later revision, and nothing is unread."""

    @property
    def has_unread(self) -> bool:
        """Whether a frame can be read without waiting."""
        return bool(self._frames)

    @property
    def resume_revision(self) -> int:
        """Revision from which a new watch would repeat nothing and miss nothing; 0 = not known yet."""
        for frame, _ in self._frames:
            if frame.count:
                return frame.revisions[0] if frame.revisions else frame.first_revision
        return 0 if self.in_initial_state else self.position

    @property
    def needs_position(self) -> bool:
        """Whether it begins "now", and when that is has not been asked yet."""
        return not self.position and not self.in_initial_state

    def begin_where_known(self) -> None:
        """The stream that could have said what "now" was is gone: rather some events too old than one too few."""
        if self.needs_position and self._known_revision:
            self.position = self._known_revision + 1

    @property
    def has_room(self) -> bool:
        """Whether less than half of the window is unread, so that it is worth running."""
        return self._unread.events * 2 <= self._window.events and self._unread.bytes * 2 <= self._window.bytes

    def statistics(self) -> WatchStatistics:
        """How full it is."""
        return WatchStatistics(self._unread.events, self._unread.bytes, self.is_ended)

    def start_message(self, watch_id: int, history: str) -> session_pb2.WatchStart:
        """The message that runs it on a stream from where it stands; gives all the credit there is room for."""
        self.watch_id = watch_id
        self._owed = Credit()
        start = session_pb2.WatchStart()
        start.CopyFrom(self._start)
        start.watch_id = watch_id
        start.from_revision = self.position
        start.initial_state = self.in_initial_state
        start.credit_events = self._window.events - self._unread.events
        start.credit_bytes = self._window.bytes - self._unread.bytes
        start.history = start.history or ("" if self.in_initial_state else history)
        return start

    def take_frame(self, frame: events_pb2.EventFrame, size_bytes: int) -> None:
        """Take a frame from the stream."""
        if frame.synced_revision:
            self.in_initial_state = False
            self.position = frame.synced_revision + 1
        if frame.through_revision and not self.in_initial_state:
            self.position = max(self.position, frame.through_revision + 1)
        if not frame.count:
            # The server charges no credit for marks.
            size_bytes = 0
            if not frame.synced_revision:
                if self.on_mark is not None and not self._frames:
                    self.on_mark()
                return
        self._frames.append((frame, size_bytes))
        self._unread.events += frame.count
        self._unread.bytes += size_bytes
        self._announce()

    def take_credit(self) -> Credit | None:
        """What was read since the last grant, if that is half of the window; then it counts as granted."""
        owed = self._owed
        if owed.events * 2 < self._window.events and owed.bytes * 2 < self._window.bytes:
            return None
        self._owed = Credit()
        return owed

    def detach(self) -> None:
        """The stream is gone. A half-read initial state cannot be continued, and ends the watch."""
        self.watch_id = 0
        if not self.in_initial_state:
            return
        if self._was_read:
            self.end(InitialStateInterruptedError())
        else:
            self._frames.clear()
            self._unread = Credit()

    def end(self, error: EcumeneError | None) -> None:
        """No more frames; what is unread can still be read, then the error is raised."""
        if not self.is_ended:
            self.is_ended = True
            self.watch_id = 0
            self._error = error
            self._announce()

    async def next_frame(self) -> events_pb2.EventFrame | None:
        """The next frame; None after the end of a watch that its reader ended.

        Raises:
            EcumeneError: the watch ended with an error.
            ClosedError: someone else waits for the same frame.
        """
        while not self._frames:
            if self.is_ended:
                if self._error is not None:
                    raise self._error.with_traceback(None)
                return None
            if self._arrival is not None:
                raise ClosedError("a watch has one reader at a time")
            self._arrival = asyncio.get_running_loop().create_future()
            try:
                await self._arrival
            finally:
                self._arrival = None
        frame, size_bytes = self._frames.popleft()
        self._was_read = True
        self._unread.events -= frame.count
        self._unread.bytes -= size_bytes
        self._owed.events += frame.count
        self._owed.bytes += size_bytes
        return frame

    def _announce(self) -> None:
        if self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(None)
