"""Outcomes of other calls that calls on this host refer to: asked for once, and told as they appear.

One watch a caller. Whoever needs an outcome is put down first, and then the world is asked for it: it is either there
already, or the watch brings it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from ecumene.client import (
    EcumeneError,
    Entry,
    EntryNotFoundError,
    EnvironmentNotFoundError,
    EventBatch,
    EventFilter,
    EventType,
    FrameWatch,
    NotFoundError,
    World,
)
from ecumene.workflows.background import Background
from ecumene.workflows.errors import Failure, FlowLostError, ResultLostError
from ecumene.workflows.messages import large_bytes, outcomes_path, read_number, write_failure, write_foreign

logger = logging.getLogger("ecumene.workflows")

ASKED_A_FRAME = 2000
KEPT_BYTES_MAX = 8 * 1024 * 1024
"""Outcomes that passed by and may be needed next; those of each caller."""

Deliver = Callable[[str], None]


class CallerOutcomes:
    """Outcomes of one caller's calls."""

    def __init__(self, world: World, flow: str, caller: str) -> None:
        self._world = world
        self._path = outcomes_path(flow, caller)
        self._name = f"outcomes of {flow}/{caller}"
        self._needed: dict[int, list[Deliver]] = {}
        self._asked: list[int] = []
        self._kept: OrderedDict[int, str] = OrderedDict()
        self._kept_bytes = 0
        self._tasks = Background(lambda error: self._fail_all(f"{self._name} cannot be read: {error!r}"))
        self._watch: FrameWatch | None = None
        self._end: str | None = None

    def need(self, number: int, deliver: Deliver) -> None:
        """Have an outcome delivered, now or later."""
        kept = self._end or self._kept.get(number)
        if kept is not None:
            deliver(kept)
            return
        if self._watch is None:
            types = (EventType.ENTRY_SET, EventType.ENTRY_DELETED)
            self._watch = self._world.watch_frames(EventFilter(path_prefix=self._path, types=types, key_glob="r*"))
            self._begin(self._read(self._watch))
        waiting = self._needed.setdefault(number, [])
        waiting.append(deliver)
        if len(waiting) == 1:
            self._asked.append(number)
            if len(self._asked) == 1:
                self._begin(self._ask())

    def keep(self, number: int, text: str) -> None:
        """An outcome that was written here."""
        if large_bytes(text) == 0:
            self._take(number, text)

    async def close(self) -> None:
        """Whoever waits is told that the caller is gone."""
        lost = Failure(FlowLostError.code, f"the caller at {self._path} has ended")
        self._end = write_failure(lost)
        if self._watch is not None:
            await self._watch.aclose()
        await self._tasks.close()
        for number in list(self._needed):
            self._deliver(number, self._end)

    async def _ask(self) -> None:
        await asyncio.sleep(0)  # all that one call needs is asked for together
        while self._asked:
            numbers, self._asked = self._asked[:ASKED_A_FRAME], self._asked[ASKED_A_FRAME:]
            numbers = [number for number in numbers if number in self._needed]
            frame = self._world.frame()
            for number in numbers:
                frame.get(self._path, f"r{number}")
            if numbers:
                await self._take_answers(numbers, frame)

    async def _take_answers(self, numbers: Sequence[int], frame: Any) -> None:
        try:
            result = await self._world.frames.send(frame)
        except EcumeneError as error:
            for number in numbers:
                self._deliver(number, write_failure(Failure(FlowLostError.code, f"{self._name}: {error}")))
            return
        for index, number in enumerate(numbers):
            found = result.peek(index)
            if isinstance(found, Entry):
                self._take(number, found.value if isinstance(found.value, str) else write_foreign(f"r{number}"))
            elif isinstance(found, EcumeneError) and not isinstance(found, EntryNotFoundError):
                what = "the caller has ended" if isinstance(found, EnvironmentNotFoundError) else str(found)
                self._deliver(number, write_failure(Failure(FlowLostError.code, what)))

    async def _read(self, watch: FrameWatch) -> None:
        try:
            async for batch in watch:
                self._take_batch(batch)
        except EcumeneError as error:
            self._fail_all(f"{self._name} cannot be read: {error}")

    def _fail_all(self, problem: str) -> None:
        """Nothing can be had any more, now or later."""
        logger.warning("%s", problem)
        self._end = write_failure(Failure(FlowLostError.code, problem))
        for number in list(self._needed):
            self._deliver(number, self._end)

    def _take_batch(self, batch: EventBatch) -> None:
        for kind, key, value in zip(batch.types, batch.keys, batch.values, strict=True):
            number = read_number(key)
            if kind == EventType.ENTRY_SET:
                self._take(number, value if type(value) is str else write_foreign(key))
            elif kind == EventType.ENTRY_DELETED:
                kept = self._kept.pop(number, "")
                self._kept_bytes -= len(kept)
                lost = Failure(ResultLostError.code, f"the result of call {number} was deleted before it was read")
                self._deliver(number, write_failure(lost))

    def _take(self, number: int, text: str) -> None:
        if large_bytes(text):
            if number in self._needed:
                self._begin(self._fetch(number))
            return
        old = self._kept.pop(number, "")
        self._kept[number] = text
        self._kept_bytes += len(text) - len(old)
        while self._kept_bytes > KEPT_BYTES_MAX:
            _, dropped = self._kept.popitem(last=False)
            self._kept_bytes -= len(dropped)
        self._deliver(number, text)

    async def _fetch(self, number: int) -> None:
        try:
            value = (await self._world.environment(self._path).get(f"v{number}")).value
        except NotFoundError:
            value = None
        except EcumeneError as error:
            logger.warning("%s: %s", self._name, error)
            value = None
        lost = Failure(ResultLostError.code, f"the result of call {number} is gone")
        self._deliver(number, value if isinstance(value, str) else write_failure(lost))

    def _deliver(self, number: int, text: str) -> None:
        for deliver in self._needed.pop(number, ()):
            deliver(text)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.begin(work, self._name)
