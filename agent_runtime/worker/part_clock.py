"""The clock by which the agents of a part live: wakes that it brings, and when it may go on.

timer fires ──► alarm ──► turns of all who are due ──► what they want next ──► timer set, clock told
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from ecumene.client import Event, EventFilter, FrameWatch

from agent_runtime.actions.outbox import Outbox
from agent_runtime.agents.cohort import Cohort
from agent_runtime.listeners.feed import Alarm, GroupFeed
from agent_runtime.model.incidents import Incidents
from agent_runtime.model.notices import Notice
from agent_runtime.ownership.clock_place import ClockPlace
from agent_runtime.ownership.history import History
from agent_runtime.ownership.wake_book import WakeBook
from agent_runtime.turns.agenda import Times
from agent_runtime.turns.part_turns import PartTurns
from agent_runtime.turns.part_wakes import PartWakes
from agent_runtime.turns.standstill import Standstill
from agent_runtime.turns.wake_timer import WakeTimer


class PartActivity(NamedTuple):
    """What a part is about to do.

    Attributes:
        is_busy: turns run or wait, or the world is not told yet when somebody is to be woken.
        consumed_revision: every event up to it has had its turns, and all that these do is sent.
        next_ns: when somebody wants to be woken next.
    """

    is_busy: bool
    consumed_revision: int
    next_ns: int | None = None


class PartClock:
    """Of one part, under one owner. In order: `open`, `follow`, then `run` and `report` as tasks, `begin`, `close`."""

    def __init__(
        self,
        part: str,
        book: WakeBook,
        place: ClockPlace,
        cohort: Cohort,
        history: History | None,
        incidents: Incidents,
        outbox: Outbox,
    ) -> None:
        self._book = book
        self._place = place
        self.wakes = PartWakes(book, cohort, history, incidents)
        self._timer = WakeTimer(self.wakes, outbox, place.join_again)
        self.alarm = Alarm(book.clock_path, book.timer_name, self._ring, self._timer.note_gone)
        self._standstill = Standstill(part)
        self._has_begun = False
        self._has_moved = asyncio.Event()
        self._turns: PartTurns
        self._feed: GroupFeed

    async def open(self, hears: list[EventFilter]) -> list[EventFilter]:
        """Look for the clock, and take part in it; returns what has to be watched besides what the part hears.

        Raises EcumeneError; EnvironmentNotFoundError, ClockNotFoundError: there is none.
        """
        await self._book.open()
        return [*await self._place.join(hears)]

    def follow(self, turns: PartTurns, feed: GroupFeed, watch: FrameWatch) -> None:
        """Wake by these turns, and look at what they and the feed do."""
        self._turns, self._feed = turns, feed
        move = self._has_moved.set
        turns.mailboxes.progress.on_idle = feed.on_reached = move
        self._timer.on_set = self.wakes.on_sent = move
        watch.call_on_mark(move)

    async def deliver(self, notice: Notice, whom: str) -> None:
        """Let the turns take a notice, see `PartTurns`."""
        if self._place.is_waited_for:
            self._standstill.note_event(notice.sim_time_ns)
        await self._turns.deliver(notice, whom)

    async def begin(self, first_wakes: Times | None, *, is_new: bool) -> None:
        """First wakes of all, and, unless it is new, what those who had theirs have asked for since.

        Raises EcumeneError.
        """
        if first_wakes is not None:
            self.wakes.begin(first_wakes)
        if not is_new:
            async for agent, document, revision in self._book.read():
                self.wakes.load(agent, document, revision)
        self._has_begun = True
        self._has_moved.set()

    @property
    def activity(self) -> PartActivity:
        """What the part is about to do, for a clock that waits for it."""
        progress, reached = self._turns.mailboxes.progress, self._feed.reached
        if not (self._has_begun and self._timer.is_told and progress.turns_open == len(self.wakes.sent)):
            return PartActivity(True, progress.through(reached))
        return PartActivity(False, reached, self.wakes.next_ns)

    async def run(self) -> None:
        """Keep the timer set, until cancelled."""
        await self._timer.run()

    async def report(self) -> None:
        """Tell the clock whenever the part has nothing to do: turns, batches and timers that end are told to look.

        What turns have sent takes effect before the clock goes on, and so does the setting of the timer; should that be
        refused, the clock still stops where somebody wants to be woken, since the report says when.
        """
        while True:
            self._has_moved.clear()
            activity = self.activity
            if not activity.is_busy:
                self._place.report(activity.consumed_revision, activity.next_ns)
            await self._has_moved.wait()

    async def close(self) -> None:
        """From now on the clock waits for the next owner."""
        await self._place.close()

    async def _ring(self, event: Event, received_s: float) -> None:
        # Before the timer counts as fired: it would be set anew for those whom this firing wakes.
        await self.wakes.sent.wait_due(event.sim_time_ns or 0)
        self._standstill.note_wake(event.sim_time_ns, self.wakes.next_ns)
        self._timer.note_fired()
        await self._turns.wake(event, received_s)
