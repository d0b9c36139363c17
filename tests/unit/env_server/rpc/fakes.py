"""A small world behind the real wire edge: entries in a dict, answers in the next loop step, watches on a queue."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import grpc

from env_server.model.changes import Changes, Place
from env_server.model.clock_reports import ClockReport, Reporter
from env_server.model.entries import VALUE, Entry
from env_server.model.errors import (
    AlreadyExists,
    InvalidRequest,
    NotFound,
    Reason,
    SessionExpired,
    Unavailable,
    WorldError,
)
from env_server.model.frames import Answer, EntryRead, Frame, Invoked, Listed, Transacted, Written
from env_server.model.limits import Limits
from env_server.model.operations import Code
from env_server.model.ports import Origin
from env_server.model.values import Json
from env_server.model.watching import Delivery, WatchSpec
from env_server.pipeline import Welcomed
from env_server.rpc.options import SERVER_OPTIONS
from env_server.rpc.service import Service, build
from env_server.storage.snapshots import Snapshot


class FakeClock:
    def monotonic_ns(self) -> int:
        return time.monotonic_ns()


class FakeWatch:
    """Gives what is put into it."""

    def __init__(self, spec: WatchSpec) -> None:
        self.spec = spec
        self.steps: asyncio.Queue[Delivery | BaseException] = asyncio.Queue()
        self.asked: list[int] = []
        self.closed = False
        self.marked: int | None = None

    async def next(self, events_max: int) -> Delivery:
        self.asked.append(events_max)
        step = await self.steps.get()
        if isinstance(step, BaseException):
            raise step
        return step

    def mark(self) -> int | None:
        return self.marked

    def close(self) -> None:
        self.closed = True


class FakeHub:
    def __init__(self) -> None:
        self.opened: list[FakeWatch] = []
        self.refusal: WorldError | None = None

    def open(self, spec: WatchSpec) -> FakeWatch:
        if self.refusal is not None:
            raise self.refusal
        self.opened.append(FakeWatch(spec))
        return self.opened[-1]


class Described(NamedTuple):
    name: str
    history: str
    revision: int
    first_retained_revision: int = 1
    environments: int = 1
    entries: int = 0
    storage_bytes: int = 4096
    storage_bytes_max: int = 1 << 30
    storage_low: bool = False
    restored_from: None = None
    is_open: bool = True

    @property
    def moment(self) -> Origin:
        return Origin(self.name, self.history, self.revision)


@dataclass
class FakeTimekeeping:
    """No clocks. Keeps what is reported, and refuses a participant "stranger"."""

    reported: list[tuple[ClockReport, Reporter]] = field(default_factory=list)
    ended: list[Reporter] = field(default_factory=list)
    behind: list[tuple[Reporter, int]] = field(default_factory=list)

    def report(self, report: ClockReport, reporter: Reporter) -> None:
        if report.key == "stranger":
            raise NotFound(Reason.PARTICIPANT_NOT_FOUND, key=report.key)
        self.reported.append((report, reporter))

    def tell_time(self, path: str) -> None:
        return None

    def end_reports(self, reporter: Reporter) -> None:
        self.ended.append(reporter)

    def end_behind(self, reporter: Reporter, refusals: int) -> None:
        self.behind.append((reporter, refusals))


@dataclass
class FakeWorld:
    """Executes SET, ADD, QUERY of an entry; INVOKE waits for `release`, or fails as its name says."""

    name: str = "main"
    history: str = "h1"
    limits: Limits = field(default_factory=Limits)
    clock: FakeClock = field(default_factory=FakeClock)
    revision: int = 0
    watches: FakeHub = field(default_factory=FakeHub)
    entries: dict[tuple[str, str], Entry] = field(default_factory=dict)
    frames: list[Frame] = field(default_factory=list)
    acknowledged: list[tuple[str, int]] = field(default_factory=list)
    last_seqs: dict[str, int] = field(default_factory=dict)
    position: int = 5
    open_clients: list[str] = field(default_factory=list)
    waiting: list[Callable[[], None]] = field(default_factory=list)
    users: int = 0
    timekeeping: FakeTimekeeping = field(default_factory=FakeTimekeeping)

    @property
    def durable_revision(self) -> int:
        return self.revision

    def when_seen(self, call: Callable[[], None]) -> None:
        call()

    def execute(self, frame: Frame, deliver: Callable[[Answer], None]) -> None:
        self.frames.append(frame)
        answer = Answer(frame.seq, len(frame.keys), self.revision)
        if frame.return_versions:
            answer.versions = []
        for index in range(len(frame.keys)):
            self._execute_op(frame, index, answer)
        answer.revision = self.revision
        asyncio.get_running_loop().call_soon(deliver, answer)
        if answer.pending:
            rest = Answer(frame.seq, len(frame.keys), self.revision, part=1, revision=self.revision)
            rest.outcomes = [Listed(index, Invoked(0, Json(b'"done"'), changed=False)) for index in answer.pending]
            self.waiting.append(lambda: deliver(rest))

    def _execute_op(self, frame: Frame, index: int, answer: Answer) -> None:
        name = (frame.paths[frame.path[index]], frame.keys[index])
        code, argument = frame.codes[index], frame.arguments[index]
        entry = self.entries.get(name)
        version = 0
        if code == Code.SET:
            self.revision += 1
            version = 1 if entry is None else entry.version + 1
            self.entries[name] = Entry(argument, version, self.revision, self.revision, VALUE)  # type: ignore[arg-type]
        elif code == Code.INVOKE and getattr(argument, "operation", "") == "wait":
            answer.pending.append(index)
        elif code == Code.INVOKE:
            raise RuntimeError("a secret of the server: /var/lib/secret")
        else:
            answer.without_revision.append(index)
            answer.outcomes.append(Listed(index, self._find_outcome(name, code, argument, entry)))
        if answer.versions is not None:
            answer.versions.append(version)

    def _find_outcome(self, name: tuple[str, str], code: int, argument: Any, entry: Entry | None) -> Any:
        if code == Code.REFUSED:
            return argument
        if code == Code.TRANSACT:
            return Transacted(self.revision, (Written(self.revision, 1),))
        if entry is None:
            return NotFound(Reason.ENTRY_NOT_FOUND, path=name[0], key=name[1])
        return EntryRead(*name, entry)

    def release(self) -> None:
        for call in self.waiting:
            call()
        self.waiting.clear()

    def open_session(self, client_id: str, since: int | None = None) -> Welcomed:
        if since and since < self.position:
            raise SessionExpired(client_id)
        self.open_clients.append(client_id)
        return Welcomed(self.last_seqs.get(client_id, 0), self.position)

    def close_session(self, client_id: str) -> None:
        self.open_clients.remove(client_id)

    def acknowledge(self, client_id: str, seq: int) -> None:
        self.acknowledged.append((client_id, seq))

    def describe(self) -> Described:
        return Described(self.name, self.history, self.revision, entries=len(self.entries))


class FakeWorlds:
    def __init__(self, *worlds: FakeWorld) -> None:
        self.worlds = {world.name: world for world in worlds}
        self.draining = False

    limits = Limits()
    worlds_open_max = 64

    def count(self) -> tuple[int, int]:
        return len(self.worlds), len(self.worlds)

    async def reach(self, name: str) -> FakeWorld:
        return self.get(name)

    def get(self, name: str) -> FakeWorld:
        if self.draining:
            raise Unavailable(Reason.DRAINING, "the server is stopping", retry_delay_ms=500)
        world = self.worlds.get(name or "main")
        if world is None:
            raise NotFound(Reason.WORLD_NOT_FOUND, world=name)
        return world

    async def create(self, name: str, if_absent: bool) -> Described:
        if name in self.worlds and not if_absent:
            raise AlreadyExists(Reason.WORLD_EXISTS, world=name)
        return self.worlds.setdefault(name, FakeWorld(name)).describe()

    async def list(self) -> list[Described]:
        return [self.worlds[name].describe() for name in sorted(self.worlds)]

    async def delete(self, name: str, history: str) -> Origin:
        if history and self.get(name).history != history:
            raise InvalidRequest(Reason.INVALID_FIELD, "history", "is another one")
        gone = self.worlds.pop(name)
        return Origin(gone.name, gone.history, gone.revision)

    async def fork(self, source: str, name: str) -> Described:
        return self.worlds.setdefault(name, FakeWorld(name, "h2", revision=self.get(source).revision)).describe()

    async def snapshot(self, name: str, snapshot: str) -> Snapshot:
        world = self.get(name)
        return Snapshot(snapshot, Origin(world.name, world.history, world.revision), 1, 3, 4096, 77, "")

    async def restore(self, snapshot: str, name: str) -> Described:
        return self.worlds.setdefault(name, FakeWorld(name, "h3", revision=5)).describe()

    async def compact(self, name: str, revision: int) -> int:
        return revision


async def wait_until(condition: Callable[[], object]) -> None:
    """Returns once the condition holds; the test's own timeout bounds it."""
    while not condition():  # noqa: ASYNC110 - what it looks at has no event
        await asyncio.sleep(0.005)


class Served(NamedTuple):
    """A running server and a channel to it."""

    world: FakeWorld
    worlds: FakeWorlds
    service: Service
    channel: grpc.aio.Channel
    server: grpc.aio.Server


@contextlib.asynccontextmanager
async def serve(world: FakeWorld | None = None) -> AsyncIterator[Served]:
    """The fake world behind the real services on a port of its own."""
    world = world or FakeWorld()
    worlds = FakeWorlds(world)
    server = grpc.aio.server(options=SERVER_OPTIONS)
    service = build(server, worlds, new_incident=lambda: "incident-1")  # type: ignore[arg-type]
    port = server.add_insecure_port("127.0.0.1:0")
    await service.begin()
    await server.start()
    options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=options) as channel:
            yield Served(world, worlds, service, channel, server)
    finally:
        await server.stop(0)


def make_changes(count: int, *, base: int = 0, values: list[Any] | None = None, step: int = 1) -> Changes:
    """A group of `count` rows in two environments; `step` 0 = all in one revision."""
    changes = Changes(1, base, wall_ns=77)
    changes.places = [Place(1, "/a", {}), Place(2, "/b", {})]
    changes.path = [row % 2 for row in range(count)]
    changes.revisions = [base + 1 + row * step for row in range(count)]
    changes.types = [4] * count
    changes.keys = [f"k{row}" for row in range(count)]
    changes.values = values if values is not None else [row / 2 for row in range(count)]
    changes.versions = [1] * count
    changes.producers = [f"p{row}" for row in range(count)]
    changes.producer_seqs = [9] * count
    changes.actors = [""] * count
    changes.causes = [""] * count
    changes.principals = [""] * count
    changes.last_revision = changes.revisions[-1]
    return changes
