"""Lets the time of an event-driven clock pass, in rounds of simulated time.

    launched ─► clock resumes ─► … agents wake, act … ─► the conductor's own wake, at the end of the round: it stands

The conductor takes part in the clock without a lease. While it reads figures, asks agents, or is dead, the clock
stands; whoever goes on with the run takes its place. A round holds what is due before its end: the clock then shows one
nanosecond less, where nobody has anything to do any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

from ecumene.client.durations import show_duration
from ecumene.client.errors import EcumeneError
from ecumene.client.participants import Participant
from ecumene.client.world import World
from ecumene.sim.rounds.figures import read_figures
from ecumene.sim.rounds.plans import RoundsPlan
from ecumene.sim.rounds.results import TIME, RoundObserver, RoundResult, read_number
from ecumene.sim.specs.experiment import ExperimentSpec

CONDUCTOR = "conductor"
"""Its name among those who take part in the clock."""
PROGRESS_INTERVAL_S = 0.25
STANDSTILL_S = 15.0


class ClockRounds:
    """Async context manager around the time of one clock, which is there already, paused or not."""

    def __init__(
        self,
        world: World,
        plan: RoundsPlan,
        experiment: ExperimentSpec,
        *,
        start_ns: int,
        observer: RoundObserver,
        tell: Callable[[str], None],
    ) -> None:
        """`start_ns`: where the clock begins. `tell` takes a line for people, when nothing goes on."""
        self._world = world
        self._plan = plan
        self._experiment = experiment
        self._start_ns = start_ns
        self._observer = observer
        self._tell = tell
        self._clock = world.environment(plan.path).clock()
        self._place: Participant | None = None
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Take part: from now on the clock passes no end of a round by itself."""
        self._place = await self._stack.enter_async_context(self._clock.participate(CONDUCTOR, ttl_s=None, hears=[]))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the clock paused: it stands where the run has ended, or until the run is gone on with."""
        try:
            await self._clock.pause()
        except EcumeneError:
            if error is None:
                raise
        finally:
            await self._stack.__aexit__(kind, error, trace)

    async def wait_for_guests(self) -> None:
        """Nobody is waited for."""

    async def play_round(self, round_number: int) -> RoundResult:
        """Let time pass up to the end of a round, counted from 1; of one that was begun before, what is left of it.

        Raises EcumeneError: the world could not be reached for too long, or refused.
        """
        place = self._place
        assert place is not None, "enter the context first"
        loop = asyncio.get_running_loop()
        started_at = loop.time()
        last_ns = self._experiment.find_end_ns(round_number, self._start_ns) - 1
        self._observer.round_opened(round_number)
        watching = asyncio.create_task(self._watch(round_number), name=f"watch the clock in round {round_number}")
        try:
            if place.now_ns < last_ns:
                place.wake_at(last_ns)
                await self._clock.resume()
                while place.now_ns < last_ns:
                    await anext(place)
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
        figures = await read_figures(self._world, self._experiment.figures)
        result = RoundResult(
            round=round_number,
            generation=0,
            participants=self._plan.participants,
            reported=0,
            failed=0,
            mean=read_number(figures.get("mean")),
            gate_cause=TIME,
            wall_s=loop.time() - started_at,
            revision=self._world.revision,
            figures={"until": show_duration(last_ns + 1), **figures},
        )
        self._observer.round_closed(result)
        return result

    async def _watch(self, round_number: int) -> None:
        """Tell how far the clock is in a round, and why it stands, when it stands for long."""
        find_end_ns = self._experiment.find_end_ns
        begin_ns = self._start_ns if round_number == 1 else find_end_ns(round_number - 1, self._start_ns)
        span_ns = find_end_ns(round_number, self._start_ns) - begin_ns
        loop = asyncio.get_running_loop()
        seen_ns, seen_at = -1, loop.time()
        while True:
            state = await self._clock.state()
            if state.now_ns != seen_ns:
                seen_ns, seen_at = state.now_ns, loop.time()
            share = min(1.0, max(0.0, (state.now_ns - begin_ns) / span_ns))
            self._observer.reports_counted(round_number, int(share * self._plan.participants))
            if loop.time() - seen_at > STANDSTILL_S:
                seen_at = loop.time()
                held = "; ".join(state.held_by[:3]) or "nothing holds it"
                self._tell(f"the clock of {self._plan.path} stands at {show_duration(state.now_ns)}: {held}")
            await asyncio.sleep(PROGRESS_INTERVAL_S)
