"""A caller's messages through the world: calls into inboxes of hosts, outcomes out of an environment of its own."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Coroutine, Sequence
from typing import Any

from ecumene.client import (
    EcumeneError,
    EnvironmentNotFoundError,
    EventBatch,
    EventFilter,
    EventType,
    FrameWatch,
    PreconditionFailedError,
    World,
    actions,
)
from ecumene.client.op_calls import OpCalls
from ecumene.workflows.background import Background
from ecumene.workflows.callers import Caller
from ecumene.workflows.calls import Call
from ecumene.workflows.errors import CallRefusedError, Failure, FlowLostError, ResultExpiredError, ResultLostError
from ecumene.workflows.messages import (
    CALLS,
    HOSTS,
    ROOT,
    host_of,
    inbox_path,
    outcomes_path,
    read_number,
    write_failure,
    write_foreign,
)

logger = logging.getLogger("ecumene.workflows")

RELEASES_A_FRAME = 1000
RELEASE_AGAIN_S = 1.0
RELEASED = write_failure(Failure(ResultExpiredError.code, "the result was released"))


async def make_places(world: World) -> None:
    """Make the environments that all flows share, if they are absent."""
    for path in (ROOT.rpartition("/")[0], ROOT, HOSTS):
        await world.environment(path).register(if_absent=True)


class WorldLink:
    """The way of one caller through the world, with the watch on its outcomes."""

    def __init__(self, world: World, caller: Caller, lease_id: int) -> None:
        self._world = world
        self._caller = caller
        self._lease_id = lease_id
        self._path = outcomes_path(caller.flow, caller.name)
        self._environment = world.environment(self._path)
        self._outcomes = OpCalls(world.session, self._path, None, world.stamp)
        self._inboxes: dict[str, OpCalls] = {}
        self._released: list[Call] = []
        self._has_released = asyncio.Event()
        self._tasks = Background(self._lose)
        self._watch: FrameWatch | None = None

    async def start(self) -> None:
        """Watch, and attach to the caller.

        Raises:
            EcumeneError: the world refused.
        """
        await self._environment.register(lease_id=self._lease_id)
        types = (EventType.ENTRY_SET, EventType.ENTRY_DELETED)
        self._watch = self._world.watch_frames(EventFilter(path_prefix=self._path, types=types, key_glob="r*"))
        self._begin(self._read(self._watch), "outcomes")
        self._begin(self._release_all(), "releases")
        self._caller.attach(self)

    async def close(self) -> None:
        """End the watches and tasks; what is released and not told yet goes with the lease."""
        if self._watch is not None:
            await self._watch.aclose()
        await self._tasks.close()

    def send(self, call: Call, host: str, text: str) -> None:
        inbox = self._inboxes.get(host)
        if inbox is None:
            inbox = self._inboxes[host] = OpCalls(self._world.session, inbox_path(host), None, self._world.stamp)
        try:
            sent = inbox.update(CALLS, actions.append(text), {})
        except (EcumeneError, ValueError) as error:  # the latter of a place that no host has: somebody's invention
            self._note_unsent(call, host, error)
            return
        sent.add_done_callback(functools.partial(self._note_sent, call, host))

    def release(self, calls: Sequence[Call]) -> None:
        self._released += calls
        self._has_released.set()

    def give_up(self, call: Call, text: str) -> None:
        self._begin(self._give_up(call, text), f"end of call {call.number}")

    async def fetch(self, call: Call) -> str:
        try:
            value = (await self._environment.get(f"v{call.number}")).value
            problem = "it is not in the world any more"
        except EcumeneError as error:
            value, problem = None, str(error)
        if isinstance(value, str):
            return value
        return write_failure(Failure(ResultLostError.code, f"the result of {call} cannot be had: {problem}"))

    def _note_sent(self, call: Call, host: str, sent: asyncio.Future[Any]) -> None:
        error = None if sent.cancelled() else sent.exception()
        if error is not None:
            self._note_unsent(call, host, error)

    def _note_unsent(self, call: Call, host: str, error: BaseException) -> None:
        if call.is_done or call.sent_to != host:
            return  # it has been dealt with
        caller = self._caller
        if isinstance(error, EnvironmentNotFoundError):
            caller.placing.remove_host(host_of(host), self._world.revision)
            if call.target.host == host and call.target.failure is None:
                caller.placing.lose(call.target, host)
            else:
                caller.send(call)
            return
        caller.give_up(call, Failure(CallRefusedError.code, f"it could not be sent: {error}"))

    async def _give_up(self, call: Call, text: str) -> None:
        key = f"r{call.number}"
        try:
            is_lost = call.is_done
            if is_lost:
                await self._environment.set(key, text)
            else:
                await self._environment.set(key, text, expect_version=0)
        except PreconditionFailedError:
            text = await self._read_outcome(key, text)
        except EcumeneError:
            pass  # the caller's place is gone, or the connection: then nobody else can be told
        self._caller.take_outcome(call.number, text)

    async def _read_outcome(self, key: str, otherwise: str) -> str:
        try:
            value = (await self._environment.get(key)).value
        except EcumeneError:
            return otherwise  # it is gone, or cannot be read
        return value if isinstance(value, str) else write_foreign(key)

    async def _read(self, watch: FrameWatch) -> None:
        try:
            async for batch in watch:
                self._take(batch)
        except EcumeneError as error:
            self._caller.end(Failure(FlowLostError.code, f"the flow's connection ended: {error}"))

    def _take(self, batch: EventBatch) -> None:
        caller = self._caller
        for kind, key, value in zip(batch.types, batch.keys, batch.values, strict=True):
            number = read_number(key)
            if kind == EventType.ENTRY_SET:
                caller.take_outcome(number, value if type(value) is str else write_foreign(key))
            elif kind == EventType.ENTRY_DELETED:
                caller.lose_result(number)

    async def _release_all(self) -> None:
        """Delete released results, in frames. What the world does not take now is told again, until the flow ends."""
        while True:
            await self._has_released.wait()
            self._has_released.clear()
            while self._released:
                calls, self._released = self._released[:RELEASES_A_FRAME], self._released[RELEASES_A_FRAME:]
                frame = self._world.frame()
                for call in calls:
                    if call.resent:
                        # A host that was taken for dead may still write its outcome: its place stays taken.
                        frame.set(self._path, f"r{call.number}", RELEASED)
                    else:
                        frame.delete(self._path, f"r{call.number}", if_present=True)
                    if call.had_large:
                        frame.delete(self._path, f"v{call.number}", if_present=True)
                try:
                    await self._world.frames.send(frame)
                except EcumeneError as error:
                    logger.warning("flow %s keeps %d results for now: %s", self._caller.flow, len(calls), error)
                    self._released[:0] = calls
                    await asyncio.sleep(RELEASE_AGAIN_S)

    def _begin(self, work: Coroutine[Any, Any, None], what: str) -> None:
        self._tasks.begin(work, f"workflow {self._caller.flow} {what}")

    def _lose(self, error: BaseException) -> None:
        """Something that was to tell of outcomes has ended: nobody is to wait for it."""
        self._caller.end(Failure(FlowLostError.code, f"a defect ended what reads the flow's results: {error!r}"))
