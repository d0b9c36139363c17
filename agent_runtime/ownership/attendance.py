"""A part's place among the participants of an event-driven clock: time does not pass over what its agents have to do.

The place is an entry without a lease, made by the first owner of the part and set anew by each later one, so that the
clock stands while nobody owns the part; it goes when the run is ended in order. Who was its owner is fenced by the next
one, and cannot set it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from ecumene.client import (
    ClockNotFoundError,
    ClockReporter,
    EcumeneError,
    EnvironmentNotFoundError,
    EventFilter,
    World,
    describe_hearing,
    hear_clock,
)

from agent_runtime.ownership.wake_book import name_timer

logger = logging.getLogger("ecumene.runtime")


class Attendance:
    """Of one part, under one owner."""

    def __init__(self, world: World, fenced: World, run: str, part: str, clock: str) -> None:
        """`clock`: path of an environment that lives by the clock of the group."""
        self._world = world
        self._fenced = fenced
        self._clock_path = clock
        self._reporter: ClockReporter | None = None
        self._consumed = -1
        self.name = name_timer(run, part)

    async def join(self, hears: Sequence[EventFilter]) -> tuple[EventFilter, ...]:
        """Take part if the clock waits for anybody, and hear these; returns what has to be watched besides.

        Raises EcumeneError.
        """
        state = await self._world.environment(self._clock_path).clock().state()
        if state.mode != "event_driven":
            return ()
        joined = await self._fenced.environment(state.participants_path).set(self.name, describe_hearing(hears))
        clock = self._world.environment(state.path).clock()
        self._reporter = clock.reporter(self.name, joined.revision, on_void=self._lose)
        return (hear_clock(state.path),)

    def report(self, consumed_revision: int) -> None:
        """The part has nothing to do, and has dealt with everything up to a revision."""
        if self._reporter is not None and consumed_revision != self._consumed:
            self._consumed = consumed_revision
            self._reporter.report(consumed_revision=consumed_revision)

    async def close(self) -> None:
        """Let the clock wait for the next owner."""
        reporter, self._reporter = self._reporter, None
        if reporter is not None:
            await reporter.close()

    def _lose(self, error: EcumeneError) -> None:
        self._reporter = None
        logger.warning("the clock does not wait for %s any more: %s", self.name, error)


async def leave_clocks(world: World, run: str, parts: Iterable[str], clocks: Iterable[str]) -> None:
    """The run is ended in order: its parts take part in these clocks no more. Raises EcumeneError."""
    names = [name_timer(run, part) for part in parts]
    for path in dict.fromkeys(clock for clock in clocks if clock):
        try:
            state = await world.environment(path).clock().state()
            if state.mode == "event_driven":
                for name in names:
                    await world.environment(state.participants_path).delete(name, if_present=True)
        except (ClockNotFoundError, EnvironmentNotFoundError):
            pass  # nobody waits there
