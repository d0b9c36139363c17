"""A host: its place in the world, its stage, and what goes between them.

inbox ─► watch ─► stage ─► committing ─► outcomes of the caller
                    ▲            │
                    └─ outcomes ◄┘      (arguments that are results of other calls)
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
from collections.abc import Callable, Collection, Mapping
from typing import Any

from ecumene.client import (
    EcumeneError,
    EntryExistsError,
    EventBatch,
    EventFilter,
    EventType,
    FrameWatch,
    Lease,
    World,
    Writes,
)
from ecumene.workflows.actors import find_actor_class
from ecumene.workflows.background import Background
from ecumene.workflows.callers import Caller
from ecumene.workflows.cells import FinishedCall
from ecumene.workflows.hosts import HostsWatch
from ecumene.workflows.limits import StageLimits
from ecumene.workflows.messages import CALLS, HOSTS, ROOT, Message, inbox_path, name_place, read_message
from ecumene.workflows.stage import Stage
from ecumene.workflows.world_link import make_places

from agent_runtime.workflows.circles import Circles
from agent_runtime.workflows.committing import Committing
from agent_runtime.workflows.flow_places import FlowPlaces
from agent_runtime.workflows.recording import CallObserver

logger = logging.getLogger("ecumene.runtime")

NAME_RETRY_S = 0.1


class HostLostItselfError(EcumeneError):
    """The host's lease ended, or its inbox did: others have taken it for dead."""


class Hosting:
    """Hosts actors in one world until it is closed. Lives in one loop."""

    def __init__(
        self,
        world: World,
        name: str,
        observer: CallObserver,
        limits: StageLimits,
        chance: random.Random,
        lease_ttl_s: float,
        modules: Collection[str] | None = (),
    ) -> None:
        """`modules`: flows may name actors of these alone; None = of any."""
        self.world: World | None = world
        self._world = world
        self.name = name
        self._observer = observer
        self._limits = limits
        self._chance = chance
        self._lease_ttl_s = lease_ttl_s
        self._modules = modules
        self._lease: Lease | None = None
        self._place = ""
        self._watches: list[FrameWatch] = []
        self._tasks = Background(lambda error: self.fail(HostLostItselfError(f"a defect of the host: {error!r}")))
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done with the reason when the host cannot go on."""

    @property
    def lease_id(self) -> int:
        """The lease that everything of this host lives under."""
        assert self._lease is not None
        return self._lease.id

    @property
    def inbox(self) -> str:
        """Path of its inbox."""
        return inbox_path(self._place)

    @property
    def actors(self) -> int:
        """Actors that live here."""
        return self.stage.actors

    async def start(self, details: Mapping[str, Any]) -> None:
        """Take the name, and calls. A host of the name that was killed is waited for until its lease has ended.

        Raises:
            EntryExistsError: a living host has the name.
            EcumeneError: the world refused.
        """
        world = self._world
        await make_places(world)
        self._lease = await world.lease(self._lease_ttl_s, holder=f"workflow host {self.name}", on_lost=self.fail)
        self._place = name_place(self.name, self.lease_id)
        inbox = world.environment(inbox_path(self._place))
        await inbox.register(lease_id=self.lease_id)
        # Items are read as events; the stream itself keeps none but the last.
        made = await inbox.create_stream(CALLS, items_max=1)
        self.hosts = HostsWatch(world, self.fail)
        self.flows = FlowPlaces(world, self.lease_id, self.hosts, self._begin)
        keep = self.flows.keep_outcome
        self.committing = Committing(world, self._place, made.revision, keep, self._note_gone, self.fail)
        self.circles = Circles(world)
        self.stage = Stage(self.name, self, self._limits, self._chance, self._find_class, self.circles)
        await self.hosts.start()
        calls = EventFilter(path_prefix=inbox.path, types=(EventType.ENTRY_APPENDED,))
        ends = EventFilter(path_prefix=ROOT, types=(EventType.ENVIRONMENT_DELETED,))
        self._read(world.watch_frames(calls), self._take_calls, "inbox")
        self._read(world.watch_frames(ends), self._take_ends, "ends")
        described = {"place": self._place, "pid": os.getpid(), "actors_max": self._limits.actors_max, **details}
        await self._take_name(self._lease, described)

    async def stop(self, timeout_s: float) -> bool:
        """Take no more actors, give calls so long to end, then go; whether all have ended."""
        is_idle = True
        if self._lease is not None and not self._lease.is_ended:
            try:
                await self._lease.leave(HOSTS, [self.name])
                is_idle = await self.stage.wait_idle(timeout_s)
            except EcumeneError as error:
                logger.warning("host %s: %s", self.name, error)
        return is_idle

    async def close(self) -> None:
        """End everything; whoever waits for a call here is told that the host is gone."""
        if self._lease is None or not hasattr(self, "stage"):
            return
        await self.flows.end_callers(f"host {self.name} ends")
        await self.stage.close()
        await self.flows.close()
        await self.committing.close()
        await self.hosts.close()
        for watch in self._watches:
            await watch.aclose()
        await self._tasks.close()
        if not self._lease.is_ended:
            try:
                await self._lease.revoke()
            except EcumeneError as error:
                logger.warning("host %s: its lease ends by itself: %s", self.name, error)
        if not self.failed.done():
            self.failed.cancel()

    # What the stage needs.

    def need(self, message: Message, deliver: Callable[[int, str], None]) -> None:
        outcomes = self.flows.find_outcomes(message.flow, message.caller)
        for place, number in enumerate(message.refs):
            outcomes.need(number, lambda text, place=place: deliver(place, text))  # type: ignore[misc]

    def find_caller(self, message: Message) -> Caller:
        return self.flows.find_caller(message.flow)

    def commit(
        self, message: Message, text: str, effects: Writes | None, then: Callable[[Exception | None], None]
    ) -> None:
        self.committing.commit(message, text, effects, then)

    def record(self, call: FinishedCall) -> None:
        self._observer.record(call)

    def _find_class(self, name: str) -> type:
        return find_actor_class(name, self._modules)

    async def _take_name(self, lease: Lease, described: Mapping[str, Any]) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._lease_ttl_s + 2.0
        while True:
            try:
                await lease.join(HOSTS, {self.name: dict(described)})
                return
            except EntryExistsError:
                if loop.time() > deadline:
                    raise
            await asyncio.sleep(NAME_RETRY_S)

    def _take_calls(self, batch: EventBatch) -> None:
        for value, revision, wall_ns in zip(batch.values, batch.revisions, batch.wall_times_ns, strict=True):
            try:
                message = read_message(value if isinstance(value, str) else "")
            except ValueError as error:
                logger.warning("host %s was sent what it cannot read: %s", self.name, error)
                continue
            message.revision, message.observed_at_ns = revision, wall_ns
            self.flows.find_outcomes(message.flow, message.caller)
            self.stage.take(message)

    def _take_ends(self, batch: EventBatch) -> None:
        for path in batch.paths:
            parts = path.removeprefix(f"{ROOT}/").split("/")
            if path == inbox_path(self._place):
                self.fail(HostLostItselfError(f"the inbox of host {self.name} is gone"))
            elif parts[0] != HOSTS.rpartition("/")[2] and len(parts) <= 2:
                self._drop(parts[0], parts[1] if len(parts) == 2 else "")

    def _drop(self, flow: str, caller: str) -> None:
        """A flow has ended, or one of its callers."""
        self.stage.drop(flow, caller)
        for dropped in self.flows.drop(flow, caller):
            self.committing.forget(*dropped)

    def _note_gone(self, message: Message) -> None:
        """Nobody is there to read the outcome of a call: it was on its way when its caller ended."""
        if self.flows.has_caller(message.flow, message.caller):
            self._drop(message.flow, message.caller)

    def _read(self, watch: FrameWatch, take: Callable[[EventBatch], None], what: str) -> None:
        async def read() -> None:
            try:
                async for batch in watch:
                    take(batch)
            except EcumeneError as error:
                self.fail(error)

        self._watches.append(watch)
        self._begin(read(), what)

    def fail(self, error: Exception) -> None:
        """It is not to go on: whoever waits for its calls learns that from its end."""
        if not self.failed.done():
            self.failed.set_exception(error)
            self.failed.exception()  # whoever stops without asking has not missed it

    def _begin(self, work: Any, what: str) -> None:
        self._tasks.begin(work, f"workflow host {what}")
