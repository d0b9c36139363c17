"""The watches of one session: one task each, behind the client's credit and the session's outbox."""

import asyncio
from collections.abc import Callable
from typing import Final

from env_api.v1 import session_pb2

from env_server.events.watches import Watch
from env_server.model.errors import Exhausted, InternalError, InvalidRequest, Reason, WorldError
from env_server.pipeline import World
from env_server.rpc.decode.watches import check_history, decode_watch
from env_server.rpc.encode.errors import encode_error
from env_server.rpc.encode.events import encode_delivery, encode_mark
from env_server.rpc.session.outbox import Outbox

_MARKS_MAX: Final = 64
"""Progress marks put at a time."""
_MARKS_PAUSE_S: Final = 0.005
_MARKS_PAUSE_S_MAX: Final = 1.0

ReportDefect = Callable[[BaseException], InternalError]


class SessionWatches:
    """Starts, feeds and ends the watches of one session. Owns their tasks until `close`."""

    def __init__(
        self, world: World, client_id: str, groups: tuple[str, ...], outbox: Outbox, report_defect: ReportDefect
    ) -> None:
        self._world = world
        self._client_id = client_id
        self._groups = groups
        self._outbox = outbox
        self._report_defect = report_defect
        self._feeds: dict[int, _Feed] = {}

    def __len__(self) -> int:
        return len(self._feeds)

    def start(self, message: session_pb2.WatchStart) -> None:
        """Begins a watch; one that cannot begin is answered with its end.

        Raises:
            InvalidRequest: INVALID_FIELD when the id is 0 or names a living watch.
        """
        watch_id = message.watch_id
        if watch_id == 0 or watch_id in self._feeds:
            problem = "must not be 0" if watch_id == 0 else "is the id of a living watch"
            raise InvalidRequest(Reason.INVALID_FIELD, "watch_id", problem)
        try:
            watch = self._open(message)
        except WorldError as error:
            self._outbox.put(encode_watch_ended(watch_id, error))
            return
        limits = self._world.limits
        feed = _Feed(watch, watch_id, self._outbox)
        feed.add_credit(
            message.credit_events or limits.watch_credit_events, message.credit_bytes or limits.watch_credit_bytes
        )
        self._feeds[watch_id] = feed
        name = f"watch {watch_id} of session {self._client_id}"
        feed.task = asyncio.get_running_loop().create_task(self._feed(feed), name=name)

    def add_credit(self, watch_id: int, events: int, size_bytes: int) -> None:
        """Adds to what a watch may send; one that has just ended needs none."""
        feed = self._feeds.get(watch_id)
        if feed is not None:
            feed.add_credit(events, size_bytes)

    def cancel(self, watch_id: int) -> None:
        """Ends a watch and says so; for one that has ended this was said already."""
        feed = self._feeds.pop(watch_id, None)
        if feed is not None:
            feed.stop()
            self._outbox.put(encode_watch_ended(watch_id, None))

    async def mark(self) -> None:
        """Puts a progress mark of every idle watch that has one to give.

        A few at a time, each when the ones before are written: no answer waits behind ten thousand marks.
        """
        feeds = list(self._feeds.values())
        for start in range(0, len(feeds), _MARKS_MAX):
            for feed in feeds[start : start + _MARKS_MAX]:
                if self._feeds.get(feed.watch_id) is feed:  # it may have ended meanwhile
                    feed.mark()
            pause_s = _MARKS_PAUSE_S
            while len(self._outbox):
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _MARKS_PAUSE_S_MAX)  # the client may read nothing for long

    async def close(self) -> None:
        """Ends all watches without a word; returns when their tasks have ended."""
        feeds = list(self._feeds.values())
        self._feeds.clear()
        for feed in feeds:
            feed.stop()
        await asyncio.gather(*(feed.task for feed in feeds if feed.task is not None), return_exceptions=True)

    def _open(self, message: session_pb2.WatchStart) -> Watch:
        world = self._world
        check_history(message.history, world.name, world.history)
        maximum = world.limits.watches_per_session_max
        if len(self._feeds) >= maximum:
            problem = f"a session holds at most watches_per_session_max = {maximum} watches"
            raise Exhausted.of(
                Reason.WATCH_QUOTA, "watches_per_session_max", maximum, problem, world.limits.retry_delay_ms
            )
        return world.watches.open(decode_watch(message, self._client_id, world.limits, self._groups))

    async def _feed(self, feed: "_Feed") -> None:
        error: WorldError
        try:
            await feed.run(self._world)
        except WorldError as ended:
            error = ended
        except Exception as defect:  # noqa: BLE001 - the edge: the client learns an incident id
            error = self._report_defect(defect)
        if self._feeds.get(feed.watch_id) is feed:
            del self._feeds[feed.watch_id]
            feed.watch.close()
            self._outbox.put(encode_watch_ended(feed.watch_id, error))


class _Feed:
    """One watch on its way into the outbox."""

    def __init__(self, watch: Watch, watch_id: int, outbox: Outbox) -> None:
        self.watch = watch
        self.watch_id = watch_id
        self.task: asyncio.Task[None] | None = None
        self._outbox = outbox
        self._events = 0
        self._bytes = 0
        self._credited = asyncio.Event()
        self._holding = False
        self._marked = 0

    def add_credit(self, events: int, size_bytes: int) -> None:
        self._events += events
        self._bytes += size_bytes
        if self._events > 0 and self._bytes > 0:
            self._credited.set()

    def mark(self) -> None:
        if not self._holding:  # a mark must not overtake rows that still wait for room
            through_revision = self.watch.mark()
            if through_revision is not None and through_revision > self._marked:
                self._marked = through_revision
                self._outbox.put(encode_mark(self.watch_id, through_revision))

    def stop(self) -> None:
        self.watch.close()
        if self.task is not None:
            self.task.cancel()

    async def run(self, world: World) -> None:
        """Delivers for ever; a frame may exceed the rest of the credit by its own size, never by a second frame."""
        while True:
            await self._credited.wait()
            delivery = await self.watch.next(self._events)
            self._holding = True
            await self._outbox.wait_for_room()  # before encoding: a session may have ten thousand watches
            for frame in encode_delivery(delivery, self.watch_id, world.limits):
                if frame.events:
                    await self._credited.wait()
                await self._outbox.put_events(frame.encoded)
                self._spend(frame.events, len(frame.encoded))
            self._holding = False

    def _spend(self, events: int, size_bytes: int) -> None:
        if events:  # marks are free: a client without credit still learns that it is alive
            self._events -= events
            self._bytes -= size_bytes
            if self._events <= 0 or self._bytes <= 0:
                self._credited.clear()


def encode_watch_ended(watch_id: int, error: WorldError | None) -> bytes:
    """A SessionResponse that ends a watch; without an error the client has cancelled it."""
    ended = session_pb2.WatchEnded(watch_id=watch_id, error=None if error is None else encode_error(error))
    return session_pb2.SessionResponse(watch_ended=ended).SerializeToString()
