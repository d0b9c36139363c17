"""The watch of one group: reads batches, keeps what wakes somebody, and hands over one notice a revision."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from ecumene.client import Event, EventBatch, FrameWatch

from agent_runtime.listeners.rules import WakeRules
from agent_runtime.model.clock import Clock
from agent_runtime.model.notices import EVERYONE, Notice, read_ask

Deliver = Callable[[Notice, str], Awaitable[None]]
"""Takes a notice, and the agent that it is for or EVERYONE. While it waits, the watch is not read on."""


class GroupFeed:
    """Passes on what one group is woken by: in the order of revisions, once each."""

    def __init__(self, rules: WakeRules, deliver: Deliver, clock: Clock, watch: FrameWatch) -> None:
        self._rules = rules
        self._deliver = deliver
        self._clock = clock
        self._watch = watch
        self._reached = 0
        self._is_handing_over = False
        self.events_seen = 0
        self.notices = 0

    @property
    def reached(self) -> int:
        """Every event up to this revision has been handed over; 0 = none has yet."""
        if not self._is_handing_over:
            self._reached = max(self._reached, self._watch.resume_revision - 1)
        return self._reached

    async def run(self) -> None:
        """Read the watch until it ends. Raises EcumeneError when it ends with an error."""
        async for batch in self._watch:
            self._is_handing_over = True
            self.events_seen += len(batch)
            await self._take(batch)
            self._is_handing_over = False

    async def _take(self, batch: EventBatch) -> None:
        received_s = self._clock.now_s()
        match = self._rules.match
        revision = 0
        woken: dict[str, list[tuple[int, Event]]] = {}
        for row, (kind, path, key) in enumerate(zip(batch.types, batch.paths, batch.keys, strict=True)):
            if (whom := match(kind, path, key)) is None:
                continue
            if batch.revisions[row] != revision:
                await self._hand_over(revision, woken, received_s)
                revision, woken = batch.revisions[row], {}
            woken.setdefault(whom, []).append((row, batch[row]))
        await self._hand_over(revision, woken, received_s)

    async def _hand_over(self, revision: int, woken: dict[str, list[tuple[int, Event]]], received_s: float) -> None:
        """All events of a revision that concern an agent are one notice, those for everyone included."""
        everyone = woken.pop(EVERYONE, [])
        for agent_id, own in woken.items():
            await self._pass_on(revision, own + everyone, agent_id, received_s)
        if everyone:
            # Whoever had a notice of this revision already is not woken by it again: groups see to that.
            await self._pass_on(revision, everyone, EVERYONE, received_s)

    async def _pass_on(self, revision: int, rows: list[tuple[int, Event]], whom: str, received_s: float) -> None:
        self.notices += 1
        events = [event for _, event in sorted(rows, key=lambda row: row[0])]
        sim_time_ns = events[0].sim_time_ns or None
        ask = next(filter(None, map(read_ask, events)), None)
        await self._deliver(Notice(revision, tuple(events), received_s, sim_time_ns, ask), whom)
