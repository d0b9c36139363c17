"""What a session says of participants of event-driven clocks: on each stream anew, behind the ops that came before."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from env_api.v1 import session_pb2, timeline_pb2

from ecumene.client import error_table
from ecumene.client.errors import EcumeneError
from ecumene.client.refused_ops import PASSING_REASONS
from ecumene.client.stamps import Stamp

if TYPE_CHECKING:
    from ecumene.client.session import Session


class ReportTable:
    """The reporters of a session. `wake` says that there is something to send."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._reporters: dict[ClockReporter, None] = {}
        self._unsent: dict[ClockReporter, None] = {}
        self._refusals = 0
        """Frames of this stream with ops that were refused for now, of those that are answered in full."""
        self._refused_in_part: set[int] = set()
        """The numbers of those of which a part of the answer is still to come."""

    def note(self, reporter: ClockReporter) -> None:
        """It has something to say; only the last of what it says counts."""
        self._reporters[reporter] = self._unsent[reporter] = None
        self._wake()

    def discard(self, reporter: ClockReporter) -> None:
        """It has nothing more to say."""
        self._reporters.pop(reporter, None)
        self._unsent.pop(reporter, None)

    def attach(self) -> None:
        """There is a new stream, and what was said on the last one counts no more."""
        self._unsent = dict(self._reporters)
        self._refusals = 0
        self._refused_in_part.clear()

    def take_answer(self, answer: session_pb2.FrameAnswer) -> None:
        """Ops that were refused for now come once more, and what was said behind them does not count.

        Called when those that are sent again wait for that.
        """
        if any(outcome.error.reason in PASSING_REASONS for outcome in answer.outcomes):
            self._refused_in_part.add(answer.seq)
        if not self._refused_in_part or answer.pending or answer.more or answer.seq not in self._refused_in_part:
            return
        self._refused_in_part.remove(answer.seq)
        self._refusals += 1
        self._unsent = dict(self._reporters)
        self._wake()

    def next_message(self, *, all_sent: bool) -> session_pb2.SessionRequest | None:
        """What is to be said next, if anything; before all ops are sent only that somebody is busy."""
        for reporter in self._unsent:
            last = reporter._last
            if last is not None and (all_sent or last.busy):
                del self._unsent[reporter]
                if reporter._is_closed:
                    del self._reporters[reporter]
                last.refusals = self._refusals
                return session_pb2.SessionRequest(clock_report=last)
        return None

    def take_void(self, message: timeline_pb2.ClockReportVoid) -> None:
        """The server has refused reports, or they count no more."""
        error = error_table.from_message(message.error)
        for reporter in [one for one in self._reporters if one._is_meant(message)]:
            reporter._lose(error)


class ClockReporter:
    """Reports for one participant of an event-driven clock: an entry, as it was set in one revision.

    Get it from `EnvironmentClock.reporter`. A report holds until the next one, also over reconnects, until the entry
    is set again or goes, or until `close`; without one the clock waits. `on_void` is called when reports do not count
    any more, with the reason: FencedError when somebody else has set the entry, or the fence of its handle has fallen,
    ParticipantNotFoundError when it is gone.
    """

    def __init__(
        self,
        session: Session,
        path: str,
        key: str,
        set_revision: int,
        stamp: Stamp,
        on_void: Callable[[EcumeneError], None] | None,
    ) -> None:
        self._session = session
        self._on_void = on_void
        self._stamp = stamp
        self._failure: EcumeneError | None = None
        self._is_closed = False
        #: The report that holds.
        self._last: timeline_pb2.ClockReport | None = None
        self.path: str = path
        self.key: str = key
        self.set_revision: int = set_revision

    def __repr__(self) -> str:
        return f"<ClockReporter of {self.key!r} for the clock of {self.path}>"

    def report(self, *, busy: bool = False, earliest_wake_ns: int | None = None, consumed_revision: int = 0) -> None:
        """Say how the participant stands. That it is idle is sent behind the ops that this session was given before.

        `consumed_revision`: every event that it hears up to this one is dealt with. `earliest_wake_ns`: when the
        clock has to stop at the latest; None = it waits for events alone. `busy`: it has something to do that it has
        not heard of by events.

        Raises:
            EcumeneError: its reports do not count any more.
        """
        if self._failure is not None:
            raise self._failure.with_traceback(None)
        if self._is_closed:
            return
        self._last = timeline_pb2.ClockReport(
            path=self.path,
            key=self.key,
            set_revision=self.set_revision,
            busy=busy,
            earliest_wake_ns=earliest_wake_ns,
            consumed_revision=consumed_revision,
            group=self._stamp.group_index,
        )
        if (fence := self._stamp.fence) is not None:
            self._last.fence.path, self._last.fence.key = fence.path, fence.key
            self._last.fence.created_revision = fence.token
        self._session.reports.note(self)

    async def close(self) -> None:
        """Report no more: the clock waits, until the entry goes or somebody else reports for it."""
        if self._last is None or self._failure is not None or self._is_closed:
            self._session.reports.discard(self)
            return
        self.report(busy=True)
        self._is_closed = True

    def _is_meant(self, message: timeline_pb2.ClockReportVoid) -> bool:
        return (message.path, message.key, message.set_revision) == (self.path, self.key, self.set_revision)

    def _lose(self, error: EcumeneError) -> None:
        self._session.reports.discard(self)
        if self._failure is None:
            self._failure = error
            if self._on_void is not None:
                self._on_void(error)
