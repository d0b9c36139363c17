"""The watch of one group: reads batches, keeps what wakes somebody, and hands over one notice a revision."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from ecumene.client import Event, EventBatch, EventFilter, EventType, FrameWatch
from ecumene.client.globs import escape_glob
from ecumene.client.waking import TIMERS

from agent_runtime.listeners.rules import WakeRules
from agent_runtime.model.clock import Clock
from agent_runtime.model.incidents import Incidents
from agent_runtime.model.notices import EVERYONE, Notice, find_ask
from agent_runtime.recording import RecordingError

Deliver = Callable[[Notice, str], Awaitable[None]]
"""Takes a notice, and the agent that it is for or EVERYONE. While it waits, the watch is not read on."""
Ring = Callable[[Event, float], Awaitable[None]]
"""Takes the firing of the part's own timer, and when it was received. While it waits, the watch is not read on."""


_ENDS = frozenset({EventType.TIMER_CANCELLED, EventType.ENVIRONMENT_DELETED})


class Alarm(NamedTuple):
    """The timer that wakes agents because it is their time, who takes its firing, and who is told that it is gone."""

    path: str
    name: str
    ring: Ring
    lose: Callable[[], None]

    @property
    def event_filters(self) -> tuple[EventFilter, ...]:
        """Let through its firings, and its end."""
        own = (EventType.TIMER_FIRED, EventType.TIMER_CANCELLED)
        literal = escape_glob(self.path)
        return (
            EventFilter(path_glob=literal, key_glob=self.name, types=own),
            EventFilter(path_glob=literal, types=(EventType.ENVIRONMENT_DELETED,)),
        )

    def is_ended(self, kind: int, path: str, key: str) -> bool:
        """Whether an event is its end."""
        return path == self.path and (kind == EventType.ENVIRONMENT_DELETED or key == self.name)


class GroupFeed:
    """Passes on what one group is woken by: in the order of revisions, once each."""

    def __init__(
        self,
        rules: WakeRules,
        deliver: Deliver,
        clock: Clock,
        watch: FrameWatch,
        incidents: Incidents,
        alarm: Alarm | None = None,
    ) -> None:
        """`watch`: of the rules' filters, and of the alarm's."""
        self._rules = rules
        self._deliver = deliver
        self._clock = clock
        self._watch = watch
        self._incidents = incidents
        self._alarm = alarm
        self._reached = 0
        self._is_handing_over = False
        self.events_seen = 0
        self.notices = 0
        self.on_reached: Callable[[], None] | None = None
        """Called when a batch has been handed over."""

    @property
    def reached(self) -> int:
        """Every event up to this revision has been handed over; 0 = none has yet."""
        if not self._is_handing_over:
            self._reached = max(self._reached, self._watch.resume_revision - 1)
        return self._reached

    async def run(self) -> None:
        """Read the watch until it ends. What cannot be read wakes nobody; it would be there again after a restart.

        Raises EcumeneError when the watch ends with an error, RecordingError.
        """
        async for batch in self._watch:
            self._is_handing_over = True
            self.events_seen += len(batch)
            await self._take(batch)
            self._is_handing_over = False
            if self.on_reached is not None:
                self.on_reached()

    async def _take(self, batch: EventBatch) -> None:
        received_s = self._clock.now_s()
        match = self._rules.match
        revision = 0
        woken: dict[str, list[tuple[int, Event]]] = {}
        for row, (kind, path, key) in enumerate(zip(batch.types, batch.paths, batch.keys, strict=True)):
            if kind in _ENDS and self._alarm is not None and self._alarm.is_ended(kind, path, key):
                self._alarm.lose()
            is_timer = kind == EventType.TIMER_FIRED and key.startswith(TIMERS)
            whom = self._match_timer(path, key) if is_timer else match(kind, path, key)
            if whom is None:
                continue
            if batch.revisions[row] != revision:
                await self._hand_over(revision, woken, received_s)
                revision, woken = batch.revisions[row], {}
            try:
                event = batch[row]
            except Exception as error:  # noqa: BLE001 - the turn edge: anybody may write what is read here
                self._incidents.note(f"the event of revision {revision} at {path} cannot be read", error)
                continue
            if is_timer:
                await self._ring(event, received_s)
            else:
                woken.setdefault(whom, []).append((row, event))
        await self._hand_over(revision, woken, received_s)

    def _match_timer(self, path: str, key: str) -> str | None:
        """A timer of a runtime: the part's own, or one that is none of its business, whatever the rules say."""
        alarm = self._alarm
        return EVERYONE if alarm is not None and (path, key) == (alarm.path, alarm.name) else None

    async def _ring(self, event: Event, received_s: float) -> None:
        """A timer fires in a revision of its own, so that nobody is woken twice in it."""
        assert self._alarm is not None
        self.notices += 1
        try:
            await self._alarm.ring(event, received_s)
        except RecordingError:
            raise
        except Exception as error:  # noqa: BLE001 - the turn edge: as below
            self._incidents.note(f"the timer of revision {event.revision} was not heard", error)

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
        sim_time_ns = events[0].sim_time_ns
        ask, problem = find_ask(events)
        try:
            await self._deliver(Notice(revision, tuple(events), received_s, sim_time_ns, ask, problem), whom)
        except RecordingError:
            raise
        except Exception as error:  # noqa: BLE001 - the turn edge: a notice that nobody can take ends here
            self._incidents.note(f"the notice of revision {revision} was not taken", error)
