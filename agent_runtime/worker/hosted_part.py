"""A part that a worker owns, from its taking to its end: its watch, its turns, its way out, its cursor.

take ──► watch from the cursor on ──► turns ──► … ──► drain ──► cursor ──► give back
                                        └── fence fell, lease lost ──► abandoned: nothing is sent or recorded
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ecumene.client import (
    EcumeneError,
    FencedError,
    FrameWatch,
    World,
)

from agent_runtime.actions.outbox import Outbox
from agent_runtime.actions.places import KnownPlaces
from agent_runtime.agents.agent import Agent, GroupInfo, RuleAgents
from agent_runtime.agents.cohort import Cohort, open_agents
from agent_runtime.agents.making import check_group, list_first_wakes, make_rule_agents
from agent_runtime.agents.registry import find_agent_class
from agent_runtime.gateways.models import ModelChoice
from agent_runtime.listeners.feed import GroupFeed
from agent_runtime.listeners.rules import WakeRules
from agent_runtime.model.clock import Clock
from agent_runtime.model.errors import LaunchError
from agent_runtime.model.incidents import Incidents
from agent_runtime.model.owned_tasks import OwnedTasks
from agent_runtime.ownership.agent_states import AgentStates
from agent_runtime.ownership.clock_place import NO_CLOCK, ClockPlace
from agent_runtime.ownership.cursors import Cursor
from agent_runtime.ownership.history import History
from agent_runtime.ownership.owner import OwnedPart
from agent_runtime.ownership.wake_book import WakeBook
from agent_runtime.settings import GroupSpec, WorkerSettings
from agent_runtime.turns.agenda import Times
from agent_runtime.turns.columns import ColumnTurns
from agent_runtime.turns.interviews import InterviewQuestion
from agent_runtime.turns.part_context import PartContext
from agent_runtime.turns.part_records import PartRecords
from agent_runtime.turns.part_turns import PartTurns
from agent_runtime.turns.presence import Presence
from agent_runtime.turns.singles import SingleTurns
from agent_runtime.turns.statistics import TurnsStatistics
from agent_runtime.turns.threads import AgentThreads
from agent_runtime.turns.turn_records import TurnRecords
from agent_runtime.worker.farewell import Farewell
from agent_runtime.worker.part_clock import PartClock

logger = logging.getLogger("ecumene.runtime")

WAIT_ASKED_S = 0.02


@dataclass(frozen=True, slots=True)
class Shared:
    """What the parts of one worker share. `failure` is done with whatever ends the worker."""

    world: World
    records: TurnRecords
    places: KnownPlaces
    settings: WorkerSettings
    agents_path: str
    run: str
    clock: Clock
    failure: asyncio.Future[None]
    presence: Presence = field(default_factory=Presence)
    threads: AgentThreads = field(default_factory=AgentThreads)


class HostedPart:
    """One owned part. Begun by `start`; ended by `stop` while it is owned, by `abandon` when it is not any more."""

    def __init__(
        self,
        owned: OwnedPart,
        spec: GroupSpec,
        group: GroupInfo,
        models: ModelChoice,
        shared: Shared,
        on_fenced: Callable[[str], None],
    ) -> None:
        """`on_fenced` is told that the world takes nothing of this part any more; `abandon` should follow.

        Raises LaunchError.
        """
        self.owned = owned
        self._shared = shared
        self._saved = owned.cursor.through
        self._saving = asyncio.Lock()
        self._first_wakes: Times | None = None
        self._tasks = OwnedTasks(shared.failure)
        self._heads = OwnedTasks(shared.failure)
        self._records = PartRecords(shared.records)
        actor = f"term-{owned.term}"
        self.outbox = Outbox(owned.world, self._tasks, shared.settings, on_fenced, actor)
        agent_class = find_agent_class(spec.agent, f"groups.{spec.name}.agent")
        keeps_states = issubclass(agent_class, Agent) and spec.resumable is not False
        cohort = Cohort(open_agents(spec.agents, (owned.part.first, owned.part.end)))
        incidents = Incidents()
        fenced, run, part, path = owned.world, shared.run, owned.part.name, spec.clock
        book = WakeBook(shared.world, fenced, run, part, path) if path else None
        self._history = None if owned.is_new else self._make_history(cohort, book)
        self.clock: PartClock | None = None
        """None: its agents live by none."""
        if book is not None:
            place = ClockPlace(shared.world, fenced, run, part, path)
            self.clock = PartClock(part, book, place, cohort, self._history, incidents, self.outbox)
        self._context = PartContext(
            spec=spec,
            group=group,
            world=shared.world,
            models=models,
            places=shared.places,
            outbox=self.outbox,
            records=self._records,
            clock=shared.clock,
            tasks=self._tasks,
            notices_waiting_max=shared.settings.notices_waiting_max,
            states=AgentStates(shared.world, owned.world, shared.agents_path) if keeps_states else None,
            history=self._history,
            presence=shared.presence,
            incidents=incidents,
            threads=shared.threads,
            wakes=self.clock.wakes if self.clock is not None else None,
        )
        self.agents = len(owned.part)
        self._turns = self._make_turns(agent_class, cohort)
        self._rules = WakeRules(spec.wake)
        self._watch: FrameWatch
        self._feed: GroupFeed

    @property
    def name(self) -> str:
        """The part's."""
        return self.owned.part.name

    @property
    def through(self) -> int:
        """Every event up to this revision has had its effect for every agent here."""
        return max(self._saved, self._turns.mailboxes.progress.through(self._feed.reached))

    async def open(self) -> None:
        """Look for the group's clock, and begin to watch. Raises LaunchError: there is no clock; EcumeneError."""
        clock, filters = self.clock, list(self._rules.event_filters)
        alarm, deliver = None, self._turns.deliver
        if clock is not None:
            alarm, deliver = clock.alarm, clock.deliver
            filters += alarm.event_filters
            try:
                filters += await clock.open(filters)
            except NO_CLOCK as error:
                group = self._context.group.name
                raise LaunchError(f"groups.{group}.clock", " ".join(str(error).split())) from error
        shared, after = self._shared, self.owned.cursor.through
        self._watch = watch = shared.world.watch_frames(filters[0], from_revision=after + 1, also=filters[1:])
        incidents = self._context.incidents
        self._feed = GroupFeed(self._rules, deliver, shared.clock, watch, incidents, alarm)
        if clock is not None:
            clock.follow(self._turns, self._feed, watch)

    def start(self) -> None:
        """Begin to wake agents: by everything that happened since the cursor."""
        name = self.name
        self._heads.start(self._turns.run(), f"turns {name}")
        self._heads.start(self._read(), f"feed {name}")
        self._heads.start(self._keep_cursor(), f"cursor {name}")
        if isinstance(self._turns, SingleTurns):
            self._heads.start(self._turns.sweep(), f"sweep {name}")
        if self.clock is not None:
            self._heads.start(self.clock.run(), f"wakes {name}")
            self._heads.start(self.clock.report(), f"place at a clock of {name}")

    def statistics(self) -> TurnsStatistics:
        """How full it is."""
        return self._turns.statistics()

    async def interview(self, agent_id: str, question: InterviewQuestion) -> dict[str, Any]:
        """Ask an agent, in a copy of its state. Raises AgentRuntimeError, EcumeneError."""
        return await self._turns.interview(agent_id, question)

    async def tell(self, agent_id: str, text: str) -> None:
        """Let an agent remember a text. Raises AgentRuntimeError, EcumeneError."""
        await self._turns.tell(agent_id, text)

    def find_profile(self, agent_id: str) -> Mapping[str, Any] | None:
        """Attributes of an agent; None if it does not live here."""
        return self._turns.find_profile(agent_id)

    def has_agent(self, agent_id: str) -> bool:
        """Whether an agent is one of the part's."""
        return self.find_profile(agent_id) is not None

    async def stop(self, farewell: Farewell, drain_s: float = 0.0) -> None:
        """Take no more events, cancel turns that have not decided, let commits finish, as long as the farewell lasts.

        With `drain_s`, turns that were begun get that long first. Turns that earlier owners took are recorded in any
        case. What ended is in the worker's records; `save_cursor` comes next.
        """
        await self._leave_clock()
        await farewell.wait_until(lambda: self._is_caught_up or self.outbox.is_closed)
        await self._watch.aclose()
        await self._drain(drain_s)
        await self._heads.cancel_all()
        await self._turns.stop()
        self.outbox.flush()
        await farewell.wait_until(lambda: not self._tasks)
        await self._tasks.cancel_all()

    async def abandon(self) -> None:
        """It is somebody else's now: send and record nothing any more, and end everything."""
        self.cut_off()
        await self._leave_clock()
        await self._watch.aclose()
        await self._heads.cancel_all()
        await self._tasks.cancel_all()

    def cut_off(self) -> None:
        """Send and record nothing from now on."""
        self._records.close()
        self.outbox.close()

    async def save_cursor(self) -> None:
        """Keep how far the part has come, once that is recorded on disk.

        Raises EcumeneError, RecordingError.
        """
        async with self._saving:
            through = self.through
            if through <= self._saved:
                return
            cursor = Cursor(through, self._turns.mailboxes.count_turns(through))
            await self._records.wait_on_disk()
            await self.owned.cursor_store.write(cursor)
            self._saved = through
            if self._history is not None:
                self._history.forget(through)

    async def _read(self) -> None:
        """What was done before, then what happens."""
        if self._history is not None:
            await self._history.read()
        if self.clock is not None:
            await self.clock.begin(self._first_wakes, is_new=self._history is None)
        await self._feed.run()

    async def _leave_clock(self) -> None:
        if self.clock is not None:
            await self.clock.close()

    async def _keep_cursor(self) -> None:
        while True:
            await asyncio.sleep(self._shared.settings.cursor_interval_s)
            try:
                await self.save_cursor()
            except FencedError as error:
                await self.outbox.lose(error)
            except EcumeneError as error:
                # What is not kept is only done again by the next owner, and met by its outcomes.
                logger.warning("the cursor of %s was not kept: %s", self.name, error)

    @property
    def _is_caught_up(self) -> bool:
        """Whether all that earlier owners did is recorded, so that it does not go with them."""
        history = self._history
        if history is None:
            return True
        return history.is_read and self._feed.reached >= history.term - 1 and self._turns.is_caught_up

    async def _drain(self, timeout_s: float) -> None:
        """Until all turns have ended, at most so long; while the part is not cut off."""
        progress, clock = self._turns.mailboxes.progress, self._shared.clock
        deadline_s = clock.now_s() + timeout_s
        while not (progress.is_idle or self.outbox.is_closed) and clock.now_s() < deadline_s:  # noqa: ASYNC110
            await asyncio.sleep(WAIT_ASKED_S)

    def _make_history(self, cohort: Cohort, book: WakeBook | None) -> History:
        owned, shared = self.owned, self._shared
        return History(
            shared.world,
            after=owned.cursor.through,
            term=owned.term,
            agents_path=shared.agents_path,
            wakes_path=book.path if book is not None else "",
            list_agents=cohort.list_ids,
        )

    def _make_turns(self, agent_class: type[Any], cohort: Cohort) -> PartTurns:
        context, turns = self._context, self.owned.cursor.turns
        if issubclass(agent_class, RuleAgents):
            agents = make_rule_agents(agent_class, context.group)
            self._first_wakes = list_first_wakes(context.spec, cohort, context.group, agents)
            settings = self._shared.settings
            return ColumnTurns(context, cohort, agents, settings.block_ops_max, settings.linger_ms / 1000, turns)
        check_group(agent_class, context.group)
        self._first_wakes = list_first_wakes(context.spec, cohort, context.group, None)
        return SingleTurns(context, cohort, agent_class, turns)
