"""Life of a turn: the stages of one worker, in the order in which an event passes them.

    ecumene.client ─► listeners ─► mailboxes ─► turns ─► agents ─► llm ─► actions ─► ecumene.client
        watch          rules,       one turn     one status         one    one op a turn,
                       notices      an agent     each               gateway packed into frames
                                                                     └────────► recording

A worker hosts parts. Each has its own watch, turns and way out, behind its own fence; all share the session, the
records and the models. Parts come and go while the worker lives.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Protocol

from ecumene.client import EcumeneError, World

from agent_runtime.actions.places import KnownPlaces
from agent_runtime.agents.agent import GroupInfo
from agent_runtime.gateways.opened_models import OpenedModels
from agent_runtime.gateways.spending import Spending
from agent_runtime.model.clock import Clock
from agent_runtime.model.errors import LaunchError
from agent_runtime.model.owned_tasks import OwnedTasks
from agent_runtime.model.parts import Part
from agent_runtime.ownership.owner import OwnedPart
from agent_runtime.ownership.places import RunPlaces
from agent_runtime.ownership.spent_book import SpentBook
from agent_runtime.recording import Recorder, RecordingError
from agent_runtime.settings import GroupSpec, WorkerConfig
from agent_runtime.turns.interviews import NoAgentError
from agent_runtime.turns.presence import Presence
from agent_runtime.turns.stalls import StallWatch
from agent_runtime.turns.statistics import TurnsStatistics
from agent_runtime.turns.turn_records import TurnRecords
from agent_runtime.worker.farewell import Farewell
from agent_runtime.worker.hosted_part import HostedPart, Shared

logger = logging.getLogger("ecumene.runtime")

ROWS_FLUSH_S = 0.5
OnLost = Callable[[str, str], None]
"""Is told which part is lost, and why."""


class Ownership(Protocol):
    """Takes parts and gives them back; see ownership.Owner."""

    async def take(self, part: Part, *, from_revision: int, wait_s: float) -> OwnedPart:
        """Own a part."""

    async def give_back(self, owned: OwnedPart) -> None:
        """Own it no more."""

    async def close(self) -> None:
        """Give back everything."""


class Pipeline:
    """All stages of one worker, on one loop and one open world."""

    def __init__(
        self,
        config: WorkerConfig,
        world: World,
        recorder: Recorder | None,
        clock: Clock,
        owner: Ownership,
        on_lost: OnLost | None = None,
    ) -> None:
        self._config = config
        self._settings = config.launch.worker
        self._world = world
        self._owner = owner
        self._on_lost = on_lost
        failure = asyncio.get_running_loop().create_future()
        self._tasks = OwnedTasks(failure)
        """What is done beside the parts: records are handed on, lost parts are ended."""
        self.records = TurnRecords(recorder, clock)
        self.stalls = StallWatch()
        """Whose code has held up all others."""
        self._recorder = recorder
        places = RunPlaces(config.launch.run)
        known, run = KnownPlaces(world), config.launch.run
        self._shared = Shared(world, self.records, known, self._settings, places.agents, run, clock, failure)
        self._specs = {spec.name: spec for spec in config.launch.groups}
        self.models = OpenedModels(config.launch, world, config.index)
        book = SpentBook(world, places.spent)
        self._spending = Spending(self.models, book, clock, self._settings.stop_timeout_s)
        self._parts: dict[str, HostedPart] = {}
        self._taking: set[str] = set()
        self._flusher: asyncio.Task[None] | None = None
        self.frames = 0
        """Sent by parts that are not hosted any more."""
        self.ops = 0

    @property
    def agents(self) -> int:
        """Agents that live here."""
        return sum(part.agents for part in self._parts.values())

    @property
    def parts(self) -> dict[str, HostedPart]:
        """Hosted parts by name."""
        return self._parts

    @property
    def presence(self) -> Presence:
        """Who takes no turns, and where persons sit."""
        return self._shared.presence

    def find_agent(self, agent_id: str) -> tuple[HostedPart, Mapping[str, Any]]:
        """The part of an agent that lives here, and the agent's attributes. Raises NoAgentError."""
        for part in self._parts.values():
            if (profile := part.find_profile(agent_id)) is not None:
                return part, profile
        raise NoAgentError(agent_id)

    async def start(self) -> None:
        """Host the parts of the config: whatever happens in the world from now on wakes their agents.

        Raises LaunchError, PartHeldError, ModelSetupError, EcumeneError; then `stop` still has to be called.
        """
        self.stalls.start()
        parts = self._config.parts
        if self._config.launch.models:
            await self._spending.start()
        await self.models.open(parts)
        self._flusher = self._tasks.start(self.records.flush_now_and_then(ROWS_FLUSH_S), "records flush")
        # Somebody who is gone may hold them until the end of the lease.
        wait_s = self._settings.lease_ttl_s + self._settings.connect_timeout_s
        await asyncio.gather(*(self.host(part, wait_s) for part in parts))

    async def host(self, part: Part, wait_s: float = 0.0, muted: Sequence[str] = ()) -> HostedPart:
        """Take a part and wake its agents by what happens behind its cursor; of them `muted` ones take no turns.

        Raises LaunchError, PartHeldError, ModelSetupError, EcumeneError.
        """
        spec = self._find_spec(part)
        if part.name in self._parts or part.name in self._taking:
            raise LaunchError(f"parts.{part.name}", "this worker has it already")
        self._taking.add(part.name)
        try:
            await self.models.open((part,))
            from_revision = self._config.launch.from_revision or self._world.revision + 1
            owned = await self._owner.take(part, from_revision=from_revision, wait_s=wait_s)
            try:
                hosted = self._begin(owned, spec)
                await hosted.open()
            except BaseException:
                await self._owner.give_back(owned)
                raise
        finally:
            self._taking.discard(part.name)
        self.presence.settle(hosted.has_agent, muted)
        self._parts[part.name] = hosted
        hosted.start()
        return hosted

    async def drop(self, name: str, drain_s: float = 0.0) -> int:
        """Give a part back; turns that were begun may end within `drain_s`. Returns its cursor's revision.

        Raises LaunchError if it is not hosted here, EcumeneError, RecordingError.
        """
        hosted = self._parts.get(name)
        if hosted is None:
            raise LaunchError(f"parts.{name}", "this worker does not host it")
        await self._spending.wait_calls(self._settings.stop_timeout_s / 2)
        async with self._say_farewell(drain_s) as farewell:
            await hosted.stop(farewell, drain_s)
        if self._parts.pop(name, None) is None:
            raise LaunchError(f"parts.{name}", "it was lost before it could be given back")
        try:
            await self._flush_records()
            await hosted.save_cursor()
        finally:
            # Without its records or cursor, too: whoever comes next does again what is not kept.
            await self._owner.give_back(hosted.owned)
            self._count(hosted)
        return hosted.through

    def lose_all(self, reason: str) -> None:
        """The lease has ended: no part is owned any more."""
        for name in list(self._parts):
            self._lose(name, reason)

    def statistics(self) -> dict[str, TurnsStatistics]:
        """How full each part is."""
        return {name: part.statistics() for name, part in self._parts.items()}

    @property
    def is_budget_spent(self) -> bool:
        """Whether a budget has refused a question here: what asks that model only ends as `budget` from now on."""
        return self.models.is_budget_spent

    async def wait_failed(self) -> None:
        """Wait for ever, or raise what ended a stage for good."""
        await asyncio.shield(self._tasks.failure)

    async def stop(self) -> bool:
        """Take no more events, cancel turns that have not decided, let commits finish, hand on all records.

        Then every part is given back, with its cursor. What waits for the world shares `stop_timeout_s`, and less if
        the world is away; what it has not taken then ends with the lease, and is done again from the last cursors.

        Returns whether the world took everything.
        """
        parts = list(self._parts.values())
        async with self._say_farewell() as farewell:
            await self._spending.wait_calls(self._settings.stop_timeout_s / 2)
            await asyncio.gather(*(part.stop(farewell) for part in parts))
            if self._flusher is not None:
                self._flusher.cancel()
            await farewell.wait_until(lambda: not self._tasks)
            await self._tasks.cancel_all()
            try:
                await self._flush_records()
            finally:
                for part in parts:
                    self._count(part)
                await self._save_cursors(parts, farewell)
                await self._part_with(farewell, self._owner.close(), "parts were not given back in order")
                self._parts.clear()
                await self._part_with(farewell, self.models.give_back(), "shared limits get nothing back")
                await self.models.aclose()
                await self._part_with(farewell, self._spending.stop(), "what was spent last was not written")
                await asyncio.to_thread(self.stalls.stop)
            return not farewell.is_over

    def _say_farewell(self, drain_s: float = 0.0) -> Farewell:
        return Farewell(lambda: self._world.statistics().is_connected, self._settings.stop_timeout_s + drain_s)

    async def _save_cursors(self, parts: list[HostedPart], farewell: Farewell) -> None:
        saving = (farewell.wait(part.save_cursor()) for part in parts)
        for problem in await asyncio.gather(*saving, return_exceptions=True):
            if isinstance(problem, EcumeneError | RecordingError | TimeoutError):
                logger.warning("a cursor was not kept: %s", problem)
            elif problem is not None:
                raise problem

    @staticmethod
    async def _part_with(farewell: Farewell, work: Coroutine[Any, Any, None], problem: str) -> None:
        try:
            await farewell.wait(work)
        except (EcumeneError, TimeoutError) as error:
            logger.warning("%s: %s", problem, error)

    async def _flush_records(self) -> None:
        """All records are on disk now, not when their part is due."""
        await self.records.flush()
        if self._recorder is not None and self._recorder.failure is None:
            await asyncio.to_thread(self._recorder.flush)

    def _begin(self, owned: OwnedPart, spec: GroupSpec) -> HostedPart:
        launch, name = self._config.launch, owned.part.name
        seed = launch.seed if spec.seed is None else spec.seed
        group = GroupInfo(spec.name, spec.parameters, seed)
        models = self.models.choose(spec, seed)
        return HostedPart(owned, spec, group, models, self._shared, lambda reason: self._lose(name, reason))

    def _lose(self, name: str, reason: str) -> None:
        """A part is somebody else's: nothing of it is sent or recorded from now on, then it is ended."""
        hosted = self._parts.pop(name, None)
        if hosted is None:
            return
        hosted.cut_off()
        self._count(hosted)
        self._tasks.start(hosted.abandon(), f"abandon {name}")
        if self._on_lost is not None:
            self._on_lost(name, reason)

    def _count(self, hosted: HostedPart) -> None:
        self.frames += hosted.outbox.frames
        self.ops += hosted.outbox.ops

    def _find_spec(self, part: Part) -> GroupSpec:
        try:
            return self._specs[part.group]
        except KeyError:
            raise LaunchError(f"parts.{part.name}", f"the launch has no group {part.group!r}") from None
