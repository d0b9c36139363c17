"""A part's place among the participants of an event-driven clock: time does not pass over what its agents have to do.

The place is an entry without a lease, made by the first owner of the part and set anew by each later one, so that the
clock stands while nobody owns the part; it goes when the run is ended in order. Who was its owner is fenced by the next
one, and cannot set it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence

from ecumene.client import (
    ClockNotFoundError,
    ClockReporter,
    EcumeneError,
    EnvironmentNotFoundError,
    EventFilter,
    FencedError,
    ParticipantNotFoundError,
    World,
    describe_hearing,
    hear_clock,
)
from ecumene.client.waking import name_timer

logger = logging.getLogger("ecumene.runtime")

REFUSED_RETRY_S = 5.0
NO_CLOCK = (ClockNotFoundError, EnvironmentNotFoundError)
"""What is raised where a clock is gone, or was not made yet."""
_GONE = (FencedError, ParticipantNotFoundError, *NO_CLOCK)
"""There is no place of this owner's any more, so that nobody waits for it."""


class ClockPlace:
    """Of one part, under one owner."""

    def __init__(
        self, world: World, fenced: World, run: str, part: str, clock: str, *, retry_s: float = REFUSED_RETRY_S
    ) -> None:
        """`clock`: path of an environment that lives by the clock of the group.

        `retry_s`: after how long a report that was refused is made again.
        """
        self._world = world
        self._fenced = fenced
        self._clock_path = clock
        self._retry_s = retry_s
        self._retry: asyncio.TimerHandle | None = None
        self._place: tuple[str, int] | None = None
        """The clock's path, and the revision in which the entry was set."""
        self._reporter: ClockReporter | None = None
        self._told: tuple[int, int | None] | None = None
        """What was reported last: revision and time."""
        self._is_closed = False
        self._hears: Sequence[EventFilter] = ()
        self.name = name_timer(run, part)

    @property
    def is_waited_for(self) -> bool:
        """Whether a clock waits for the part."""
        return self._place is not None

    async def join(self, hears: Sequence[EventFilter]) -> tuple[EventFilter, ...]:
        """Take part if the clock waits for anybody, and hear these; returns what has to be watched besides.

        That is the same for any clock: it may be made again as one that waits, and a watch stays what it is. Who has
        been closed meanwhile reports nothing.

        Raises EcumeneError.
        """
        self._hears = hears
        state = await self._world.environment(self._clock_path).clock().state()
        also = (hear_clock(state.path),)
        if state.mode != "event_driven" or self._is_closed:
            return also
        joined = await self._fenced.environment(state.participants_path).set(self.name, describe_hearing(hears))
        self._take(state.path, joined.revision)
        return also

    async def join_again(self) -> None:
        """The same, where the clock may be another one by now: what was reported to the last one counts no more.

        Does nothing once it is closed. Raises EcumeneError.
        """
        if self._is_closed:
            return
        await self._leave()
        await self.join(self._hears)

    def report(self, consumed_revision: int, earliest_wake_ns: int | None = None) -> None:
        """The part has nothing to do before that time, and has dealt with everything up to a revision."""
        if (told := (consumed_revision, earliest_wake_ns)) != self._told:
            self._told = told
            self._report()

    async def close(self) -> None:
        """Let the clock wait for the next owner, for good: the part hears nothing any more, and reports nothing."""
        self._is_closed = True
        await self._leave()

    def _take(self, path: str, set_revision: int) -> None:
        if self._is_closed:
            return  # nobody reports for the entry, so that the clock waits for the next owner
        self._place = (path, set_revision)
        self._told = None  # what was said meanwhile was said to nobody
        self._reporter = self._make_reporter(*self._place)

    async def _leave(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
        self._place = None
        reporter, self._reporter = self._reporter, None
        if reporter is not None:
            await reporter.close()

    def _make_reporter(self, path: str, set_revision: int) -> ClockReporter:
        return self._fenced.environment(path).clock().reporter(self.name, set_revision, on_void=self._lose)

    def _lose(self, error: EcumeneError) -> None:
        self._reporter = None
        if self._place is None:
            return
        if isinstance(error, _GONE):
            self._place = None
            logger.warning("%s has no place among the participants of its clock any more: %s", self.name, error)
            return
        # The entry is still there, and a clock that waits for it would stand for as long as nobody reports.
        text = "what %s reports to its clock is refused, and reported again in %g s; until then the clock stands: %s"
        logger.warning(text, self.name, self._retry_s, error)
        self._retry = asyncio.get_running_loop().call_later(self._retry_s, self._report_again)

    def _report_again(self) -> None:
        if self._place is not None:
            self._reporter = self._make_reporter(*self._place)
            self._report()

    def _report(self) -> None:
        if self._reporter is not None and self._told is not None:
            consumed_revision, earliest_wake_ns = self._told
            self._reporter.report(consumed_revision=consumed_revision, earliest_wake_ns=earliest_wake_ns)


async def leave_clocks(world: World, run: str, timers: Iterable[tuple[str, str]]) -> None:
    """The run is ended in order: its parts wake nobody any more, and no clock waits for them. Raises EcumeneError.

    `timers`: its parts whose agents live by a clock, each with the environment where the part's timer stands.
    """
    by_clock: dict[str, list[str]] = {}
    for part, clock in timers:
        by_clock.setdefault(clock, []).append(name_timer(run, part))
    for path, names in by_clock.items():
        await _leave_clock(world, path, names)


async def _leave_clock(world: World, path: str, names: Sequence[str]) -> None:
    environment = world.environment(path)
    try:
        state = await environment.clock().state()
    except NO_CLOCK:
        return  # the timers went with it, and nobody waits there
    leaving = [environment.cancel_timer(name, if_present=True) for name in names]
    if state.mode == "event_driven":
        participants = world.environment(state.participants_path)
        leaving += [participants.delete(name, if_present=True) for name in names]
    # Issued in one step, so that they travel together; all of them are tried.
    outcomes = await asyncio.gather(*leaving, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, BaseException) and not isinstance(outcome, NO_CLOCK):
            raise outcome
