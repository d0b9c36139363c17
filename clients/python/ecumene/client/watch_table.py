"""The watches of a session: starts them on each new stream where they left off, and passes their frames on."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from env_api.v1 import events_pb2, session_pb2

from ecumene.client import error_table
from ecumene.client.errors import EcumeneError, UnavailableError
from ecumene.client.watch_feed import WatchFeed

Send = Callable[[session_pb2.SessionRequest], None]


class WatchTable:
    """Feeds by watch id. `send` queues a message on the stream at hand."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._feeds: set[WatchFeed] = set()
        self._running: dict[int, WatchFeed] = {}
        self._asking: dict[int, WatchFeed] = {}
        """Feeds that wait for a pong to learn what "now" is, by token."""
        self._ids = itertools.count(1)
        self._history = ""
        self._is_attached = False
        self._failure: EcumeneError | None = None

    def __len__(self) -> int:
        return len(self._feeds)

    def add(self, feed: WatchFeed) -> None:
        """Run a new watch, as soon as there is a stream; in a session that ended it ends at once."""
        if self._failure is not None:
            feed.end(self._failure)
            return
        self._feeds.add(feed)
        if self._is_attached:
            self._begin(feed)

    def attach(self, history: str) -> None:
        """There is a new stream: go on where each watch stands."""
        self._is_attached = True
        self._history = history
        for feed in self._feeds:
            feed.begin_where_known()
            self._begin(feed)

    def detach(self) -> None:
        """The stream is gone."""
        self._is_attached = False
        self._running.clear()
        self._asking.clear()
        for feed in list(self._feeds):
            feed.detach()
            if feed.is_ended:
                self._feeds.discard(feed)

    def take_pong(self, pong: session_pb2.Pong) -> None:
        """A revision that a watch from now on may begin after: it is no older than the watch."""
        feed = self._asking.pop(pong.token, None)
        if feed is not None and not feed.is_ended:
            feed.position = pong.revision + 1
            self._start(feed)

    def take_frame(self, frame: events_pb2.EventFrame, size_bytes: int) -> None:
        """Pass a frame on; frames of watches that were cancelled meanwhile are dropped."""
        feed = self._running.get(frame.watch_id)
        if feed is not None:
            feed.take_frame(frame, size_bytes)

    def take_end(self, ended: session_pb2.WatchEnded) -> None:
        """The server ended a watch. What a new stream may heal waits for it, the rest reaches the reader."""
        feed = self._running.pop(ended.watch_id, None)
        if feed is None:
            return
        error = error_table.from_message(ended.error) if ended.HasField("error") else None
        if isinstance(error, UnavailableError):
            feed.detach()
        else:
            feed.end(error)
        if feed.is_ended:
            self._feeds.discard(feed)

    def after_read(self, feed: WatchFeed) -> None:
        """The reader took a frame: give the server credit, or run the watch now that there is room."""
        if not self._is_attached or feed.is_ended:
            return
        if feed.watch_id:
            credit = feed.take_credit()
            if credit is not None:
                message = session_pb2.WatchCredit(watch_id=feed.watch_id, events=credit.events, bytes=credit.bytes)
                self._send(session_pb2.SessionRequest(credit=message))
        elif feed not in self._asking.values():
            self._begin(feed)

    def cancel(self, feed: WatchFeed) -> None:
        """The reader wants no more."""
        if feed.watch_id and self._running.pop(feed.watch_id, None) is not None:
            cancel = session_pb2.WatchCancel(watch_id=feed.watch_id)
            self._send(session_pb2.SessionRequest(cancel=cancel))
        self._feeds.discard(feed)
        feed.end(None)

    def fail(self, error: EcumeneError) -> None:
        """The session ended: so do all watches, with its error."""
        self._is_attached = False
        self._failure = error
        for feed in self._feeds:
            feed.end(error)
        self._feeds.clear()
        self._running.clear()
        self._asking.clear()

    def _begin(self, feed: WatchFeed) -> None:
        if feed.needs_position:
            # "Now" must be a definite revision before the first event, or a break before it would lose events.
            token = next(self._ids)
            self._asking[token] = feed
            self._send(session_pb2.SessionRequest(ping=session_pb2.Ping(token=token)))
        elif feed.has_room:
            self._start(feed)

    def _start(self, feed: WatchFeed) -> None:
        message = feed.start_message(next(self._ids), self._history)
        self._running[feed.watch_id] = feed
        self._send(session_pb2.SessionRequest(watch=message))
