"""Participants of event-driven clocks: who must have nothing left to do before simulated time goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from env_api.v1 import session_pb2

from ecumene.client.clock_reports import ClockReporter
from ecumene.client.clocks import ClockState, refuse_field
from ecumene.client.errors import ClosedError, EcumeneError, ErrorDetails, Executed, PermissionDeniedError
from ecumene.client.event_batch import EventBatch
from ecumene.client.filters import fill_filter
from ecumene.client.globs import escape_glob
from ecumene.client.model import EventFilter, EventType, Json, Value
from ecumene.client.participant_places import ParticipantPlace
from ecumene.client.timeline_reasons import ClockModeMismatchError
from ecumene.client.values import check_key
from ecumene.client.watch_feed import Credit, WatchFeed
from ecumene.client.watches import FrameWatch

if TYPE_CHECKING:
    from ecumene.client.world import World

_HEARD_BY = ("path_prefix", "path_glob", "key_glob")


class Participant:
    """A participant of an event-driven clock, and all that it hears, in batches and in order:

        async with world.environment("/town").clock().participate("bob") as bob:
            async for batch in bob:
                ...                         # deal with its events; await the ops to which they lead
                bob.wake_at(bob.now_ns + ns(minutes=5))

    The clock stands while a batch is in the hands of the block. Asking for the next one says that the last is dealt
    with; then the clock goes on as soon as everybody has said so, to the first timer, or wake, of all. Ops that the
    block has issued by then take effect before. The batch in which the clock has come to `wake_at` says so with a
    CLOCK_CHANGED event; another wake has to be asked for anew.

    Nothing is left out and nothing comes twice, over reconnects and cancelled waits too; while nobody waits for the
    next batch, the clock stands. It leaves with the block. One task reads it at a time.

    Iterating raises:
        LeaseExpiredError: its lease has ended: the clock does not wait for it any more.
        FencedError: somebody else takes part under its name.
        ParticipantNotFoundError: its entry was deleted.
        ClosedError: another task waits for its next batch.
        EcumeneError: as FrameWatch.
    """

    def __init__(
        self, world: World, path: str, name: str, ttl_s: float | None, hears: Sequence[EventFilter] | None
    ) -> None:
        self._world = world
        self._session = world.session
        self._asked_path = path
        self._clock_path = path
        self._ttl_s = ttl_s
        self._value = describe_hearing(hears, world.group)
        self._hears = hears
        self._place: ParticipantPlace | None = None
        self._reporter: ClockReporter | None = None
        self._feed: WatchFeed | None = None
        self._frames: FrameWatch | None = None
        self._failure: EcumeneError | None = None
        self._wake_ns: int | None = None
        self._is_waiting = False
        self._now_ns = 0
        self.name: str = check_key(name)

    def __repr__(self) -> str:
        return f"<Participant {self.name!r} of the clock of {self._clock_path}>"

    @property
    def now_ns(self) -> int:
        """The clock's time, as of the last batch."""
        return self._now_ns

    def wake_at(self, at_ns: int | None) -> None:
        """Let the clock not pass this time without waking it; instead of what was asked before, None = of nothing.

        A time that has passed is due as soon as everybody is idle: the clock then tells its time once more.
        """
        self._wake_ns = at_ns
        # A batch that came meanwhile is still to be read: the next report follows it.
        if self._is_waiting and self._feed is not None and not self._feed.has_unread:
            self._report()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> EventBatch:
        feed, frames = self._feed, self._frames
        if self._failure is not None:
            raise self._failure.with_traceback(None)
        if feed is None or frames is None:
            raise StopAsyncIteration
        if self._is_waiting:
            raise ClosedError("a participant has one reader at a time")
        self._is_waiting = not feed.has_unread
        if self._is_waiting:
            self._report()
        try:
            batch = await frames.__anext__()
        except asyncio.CancelledError:
            if self._is_waiting and self._failure is None and self._reporter is not None:
                self._reporter.report(busy=True)  # who waits no more may act
            raise
        finally:
            self._is_waiting = False
        self._note_time(batch)
        return batch

    async def __aenter__(self) -> Self:
        try:
            await self._join()
        except BaseException:
            try:
                await self._leave()
            except EcumeneError:
                pass  # why it did not join is told
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._leave()
        except EcumeneError:
            if error is None:
                raise

    async def _join(self) -> None:
        clock = self._world.environment(self._asked_path).clock()
        state = await clock.state()
        if state.mode != "event_driven":
            raise _refuse_mode(state)
        if not state.participants_path:
            raise _refuse_hidden(state.path, self._world.group)
        self._clock_path = state.path
        self._place = ParticipantPlace(
            self._world, state.participants_path, self.name, self._value, self._ttl_s, on_lost=self._fail
        )
        self._begin(await self._place.enter())
        self._now_ns = (await clock.state()).now_ns

    def _begin(self, revision: int) -> None:
        session, stamp = self._session, self._world.stamp
        self._reporter = ClockReporter(session, self._clock_path, self.name, revision, stamp, self._fail)
        clock, hears = self._clock_path, self._hears
        filters = [EventFilter(path_prefix=clock)] if hears is None else [hear_clock(clock), *hears]
        start = session_pb2.WatchStart(
            filter=fill_filter(filters[0]),
            also=map(fill_filter, filters[1:]),
            from_revision=revision + 1,
            history=session.history,
            group=stamp.group_index,
        )
        window = Credit(session.settings.watch_events_max, session.settings.watch_bytes_max)
        self._feed = feed = WatchFeed(start, window, revision)
        feed.on_mark = self._report_again
        self._frames = FrameWatch(session, feed)

    async def _leave(self) -> None:
        reporter, frames = self._reporter, self._frames
        self._reporter = self._frames = self._feed = None
        if reporter is not None:
            await reporter.close()
        if frames is not None:
            await frames.aclose()
        if self._place is not None:
            await self._place.leave()
            self._place = None

    def _report(self) -> None:
        assert self._reporter is not None and self._feed is not None
        # What is behind the last batch was read; nothing is unread when this is called.
        self._reporter.report(earliest_wake_ns=self._wake_ns, consumed_revision=self._feed.position - 1)

    def _report_again(self) -> None:
        """The server says that there is nothing more up to a later revision: perhaps the clock waits for this word."""
        if self._is_waiting and self._failure is None:
            self._report()

    def _note_time(self, batch: EventBatch) -> None:
        if EventType.CLOCK_CHANGED not in batch.types:
            return
        for row, kind in enumerate(batch.types):
            if kind == EventType.CLOCK_CHANGED and batch.paths[row] == self._clock_path:
                told: Any = batch.values[row]
                self._now_ns = max(self._now_ns, told["now_ns"])
        if self._wake_ns is not None and self._wake_ns <= self._now_ns:
            self._wake_ns = None

    def _fail(self, error: EcumeneError) -> None:
        if self._failure is not None:
            return
        self._failure = error
        if self._feed is not None:
            self._feed.end(error)
            self._session.watches.cancel(self._feed)


def describe_hearing(hears: Sequence[EventFilter] | None, group: str = "") -> Value:
    """The value of the entry of a participant that hears these; None = all of the clock's environment and below.

    `group`: path of the group whose view its watch takes.

    Raises:
        InvalidFieldError: a filter restricts by what a participant cannot hear by.
    """
    told: dict[str, Json] = {}
    if group:
        told["group"] = group
    if hears is not None:
        told["hears"] = [_describe(wanted) for wanted in hears]
    return told or None


def hear_clock(path: str) -> EventFilter:
    """What every participant hears, and has to watch: changes of the clock of the environment at `path`."""
    return EventFilter(path_glob=escape_glob(path), types=(EventType.CLOCK_CHANGED,))


def _refuse_mode(state: ClockState) -> ClockModeMismatchError:
    told = {"path": state.path, "mode": state.mode}
    text = f"the clock of {state.path} is not event-driven: it waits for nobody"
    return ClockModeMismatchError(
        ErrorDetails(message=text, reason="CLOCK_MODE_MISMATCH", metadata=told, executed=Executed.NO)
    )


def _refuse_hidden(path: str, group: str) -> PermissionDeniedError:
    text = f"the group {group} may not see where the participants of the clock of {path} are"
    return PermissionDeniedError(ErrorDetails(message=text, reason="PERMISSION_DENIED", executed=Executed.NO))


def _describe(wanted: EventFilter) -> dict[str, Json]:
    texts = {name: getattr(wanted, name) for name in _HEARD_BY}
    if wanted != EventFilter(types=wanted.types, **texts):
        raise refuse_field(f"hears: a participant hears by types, {', '.join(_HEARD_BY)} alone")
    told: dict[str, Json] = {name: text for name, text in texts.items() if text}
    if wanted.types:
        told["types"] = [EventType(kind).name.lower() for kind in wanted.types]
    return told
