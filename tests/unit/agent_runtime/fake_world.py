"""A world in this process that answers as a server would, through the SDK's own views; for tests of the runtime.

Keeps entries, the outcome of each producer's last number, and which generation each environment collects.
Answers wait in `held` while `hold_answers` is set.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from types import SimpleNamespace
from typing import Any

from ecumene.client import (
    ClockNotFoundError,
    Entry,
    EntryKind,
    EntryNotFoundError,
    EnvironmentInfo,
    EnvironmentNotFoundError,
    ErrorDetails,
    EventBatch,
    EventFilter,
    EventType,
    FencedError,
    FrameResult,
    PastValue,
)
from env_api.v1 import events_pb2

from tests.unit.agent_runtime.fake_writes import FakeFrames, FakeTransaction

REPORTS = "/game/reports"


class FakeWorld:
    """Stands in for `ecumene.client.World`."""

    def __init__(self) -> None:
        self.name = "fake"
        self.revision = 10
        self.paths = {"/", "/game", REPORTS}
        self.entries: dict[tuple[str, str], Any] = {}
        self.past: dict[tuple[str, str], list[PastValue]] = {}
        self.fence_holds = True
        self.outcomes: dict[str, tuple[int, tuple[int, str]]] = {}
        self.collecting: dict[str, int] = {REPORTS: 1}
        self.frames = FakeFrames(self)
        self.watches: list[FakeWatch] = []
        self.is_there = True
        self.emitted: list[tuple[int, EventBatch]] = []
        self.hold_answers = False
        self.held: list[tuple[asyncio.Future[FrameResult], FrameResult]] = []
        self.transactions: list[tuple[str, int, list[tuple[str, str, Any]]]] = []
        self.describes = 0
        self.clock_ns: int | None = None
        """Where the clock of /game stands; None = there is none."""
        self.timers: dict[tuple[str, str], int] = {}
        self.timers_set = 0
        self.positions: dict[str, Any] = {}

    def statistics(self) -> Any:
        return SimpleNamespace(is_connected=self.is_there)

    def environment(self, path: str) -> FakeEnvironment:
        return FakeEnvironment(self, path)

    def transaction(self) -> FakeTransaction:
        return FakeTransaction(self)

    def watch_frames(
        self, event_filter: EventFilter, *, from_revision: int = 0, also: Sequence[EventFilter] = ()
    ) -> FakeWatch:
        watch = FakeWatch(event_filter, from_revision)
        if EventType.ENTRY_SET in event_filter.types and not event_filter.path_glob:
            watch.queue.put_nowait(self.tell_past(from_revision))
            return watch
        for revision, batch in self.emitted:
            if revision >= from_revision:
                watch.queue.put_nowait(batch)
        self.watches.append(watch)
        return watch

    def tell_past(self, from_revision: int) -> EventBatch:
        """All that was stored from a revision on."""
        told = sorted(
            (past.revision, path, key, past)
            for (path, key), pasts in self.past.items()
            for past in pasts
            if past.revision >= from_revision
        )
        frame = events_pb2.EventFrame(count=len(told), through_revision=self.revision)
        for place, (revision, path, key, past) in enumerate(told):
            frame.revisions.append(revision)
            frame.paths.append(path)
            frame.path.append(place)
            frame.keys.append(key)
            frame.types.append(int(past.type))  # type: ignore[arg-type]
            frame.value_kinds.append(7)
            frame.blobs.append(json.dumps(past.value).encode())
            frame.producers.append(past.producer)
            frame.producer_seqs.append(past.version)
            frame.causes.append(past.cause)
        return EventBatch(frame, self.name)

    def emit(self, *events: tuple[EventType, str, str, Any], revision: int | None = None) -> int:
        """Give all watches events of one revision, (type, path, key, value) each; returns the revision."""
        self.revision = self.revision + 1 if revision is None else revision
        frame = events_pb2.EventFrame(count=len(events), through_revision=self.revision)
        frame.revisions.extend([self.revision] * len(events))
        for place, (kind, path, key, value) in enumerate(events):
            frame.paths.append(path)
            frame.path.append(place)
            frame.types.append(int(kind))  # type: ignore[arg-type]
            frame.keys.append(key)
            frame.value_kinds.append(7)
            frame.blobs.append(json.dumps(value).encode())
            if self.clock_ns is not None:
                frame.sim_times_ns.append(self.clock_ns)
                frame.timed.append(True)
        batch = EventBatch(frame, self.name)
        self.emitted.append((self.revision, batch))
        for watch in self.watches:
            watch.queue.put_nowait(batch)
        return self.revision

    def advance(self, to_ns: int) -> None:
        """Let the clock go on to a time; timers that are due fire, each at its own time."""
        assert self.clock_ns is not None and to_ns >= self.clock_ns
        while self.timers and (first := min(self.timers.values())) <= to_ns:
            self.clock_ns = max(first, self.clock_ns)
            path, name = next(place for place, at_ns in self.timers.items() if at_ns == first)
            del self.timers[path, name]
            self.emit((EventType.TIMER_FIRED, path, name, {"due_ns": first, "fired": 1, "missed": 0, "last": True}))
        self.clock_ns = to_ns

    def open_round(self, number: int = 1, *, revision: int | None = None, **more: Any) -> int:
        """What the guess game emits; the reports' gate collects generation `number` from now on."""
        self.collecting[REPORTS] = number
        document = {"round": number, "generation": number, "reports": REPORTS, "ratio": 2 / 3, "offset": 0.0}
        document |= {"last_winner": None, **more}
        return self.emit((EventType.BEHAVIOUR, "/game", "round.opened", document), revision=revision)

    def release_answers(self) -> None:
        """Answer what was held, and hold no more."""
        self.hold_answers = False
        for future, result in self.held:
            if not future.done():
                future.set_result(result)
        self.held.clear()

    def forget_all(self) -> None:
        """Keep nothing of what was done, for a test that measures memory."""
        for kept in (self.entries, self.past, self.outcomes, self.transactions, self.frames.blocks):
            kept.clear()

    def reports(self) -> dict[str, Any]:
        """Entries under the reports' path."""
        return {key: value for (path, key), value in self.entries.items() if path == REPORTS}

    def store(self, path: str, key: str, value: Any, producer: str = "", seq: int = 0, cause: str = "") -> None:
        """A value that takes the world's revision; its version stands for its producer's number."""
        self.entries[path, key] = value
        past = PastValue(self.revision, EventType.ENTRY_SET, value, seq, "", cause, producer, 0)
        self.past.setdefault((path, key), []).append(past)

    def apply(
        self, producer: str, seq: int, generation: int, path: str, key: str, value: Any, cause: str = ""
    ) -> tuple[int, str, bool]:
        """One write; returns its revision (0 = none), the reason of a failure, and whether it is a duplicate."""
        last, outcome = self.outcomes.get(producer, (0, (0, "")))
        if last == seq:
            return (*outcome, True)
        if last > seq:
            return 0, "SEQUENCE_PASSED", False
        if not self.fence_holds:
            return 0, "FENCED", False
        if path not in self.paths:
            outcome = 0, "ENVIRONMENT_NOT_FOUND"
        elif generation and self.collecting.get(path) != generation:
            outcome = 0, "GATE_CLOSED"
        else:
            self.revision += 1
            self.store(path, key, value, producer, seq, cause)
            outcome = self.revision, ""
        self.outcomes[producer] = seq, outcome
        return (*outcome, False)


class FakeEnvironment:
    """Stands in for `Environment`."""

    def __init__(self, world: FakeWorld, path: str) -> None:
        self._world = world
        self.path = path

    async def describe(self) -> EnvironmentInfo:
        self._world.describes += 1
        if self.path not in self._world.paths:
            raise EnvironmentNotFoundError(ErrorDetails(reason="ENVIRONMENT_NOT_FOUND"))
        return EnvironmentInfo(self.path, "basic", {}, {}, None, (), (), 1, 1, 1, 0, 0)

    async def register(self, *, config: object = None, if_absent: bool = False) -> None:
        self._world.paths.add(self.path)

    def clock(self) -> FakeClock:
        return FakeClock(self._world, self.path)

    async def set_timer(self, name: str, *, at_ns: int) -> None:
        world = self._world
        if not world.fence_holds:
            raise FencedError(ErrorDetails(reason="FENCED"))
        world.timers[self.path, name] = at_ns
        world.timers_set += 1
        assert world.clock_ns is not None
        world.advance(world.clock_ns)

    async def entries(self, *, page_size: int = 0) -> AsyncIterator[Entry]:
        for path, key in sorted(self._world.entries):
            if path == self.path:
                yield await self.get(key)

    async def get(self, key: str) -> Entry:
        if (self.path, key) not in self._world.entries:
            raise EntryNotFoundError(ErrorDetails(reason="ENTRY_NOT_FOUND"))
        past = self._world.past.get((self.path, key))
        modified = past[-1].revision if past else 1
        return Entry(self.path, key, EntryKind.VALUE, self._world.entries[self.path, key], 1, 1, modified)

    async def set(self, key: str, value: Any, *, cause: str = "") -> None:
        if not self._world.fence_holds:
            raise FencedError(ErrorDetails(reason="FENCED"))
        self._world.revision += 1
        self._world.store(self.path, key, value, "", 0, cause)


class FakeClock:
    """Stands in for `EnvironmentClock`: one for all below /game."""

    def __init__(self, world: FakeWorld, path: str) -> None:
        self._world = world
        self._path = path

    async def state(self) -> SimpleNamespace:
        if self._world.clock_ns is None or not self._path.startswith("/game"):
            raise ClockNotFoundError(ErrorDetails(reason="CLOCK_NOT_FOUND"))
        return SimpleNamespace(mode="manual", path="/game", participants_path="")


class FakeWatch:
    """Stands in for `FrameWatch`."""

    def __init__(self, event_filter: EventFilter, from_revision: int) -> None:
        self.event_filter = event_filter
        self.from_revision = from_revision
        self.resume_revision = from_revision
        self.queue: asyncio.Queue[EventBatch | None] = asyncio.Queue()

    def call_on_mark(self, call: Any) -> None:
        """Nothing is marked here."""

    def __aiter__(self) -> FakeWatch:
        return self

    async def __anext__(self) -> EventBatch:
        batch = await self.queue.get()
        if batch is None:
            raise StopAsyncIteration
        self.resume_revision = batch.through_revision + 1
        return batch

    async def aclose(self) -> None:
        self.queue.put_nowait(None)

    async def __aenter__(self) -> FakeWatch:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
