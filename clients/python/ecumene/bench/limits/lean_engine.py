"""The lean engine: blocks of ops executed in one pass, and a log whose record is the commit. No features.

It does what no durable engine of this kind can leave out: versions, producers with numbers, a gate's generation, an
exact running sum, columnar log records, one fsync a group of frames, answers that leave after it, state written
lazily. It has no paths to resolve, no types to validate, no errors with text, no events, no sessions, no restart.
"""

from __future__ import annotations

import asyncio
import struct
import threading
from collections.abc import Iterable
from itertools import repeat
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import lmdb
from env_api.v1 import events_pb2, operations_pb2, session_pb2
from env_storage.v1 import record_pb2

MAP_BYTES = 8 << 30
STATE_KEYS_MAX = 65_536
"""Entries changed and not in the state table; more are written with the next commit."""
_DOUBLE = 4
"""Kind of value of a double, as events tell it."""
_NUMBER = struct.Struct(">Q")
_STATE = struct.Struct(">Qd")

State = list[tuple[bytes, bytes]]


class LeanEntry:
    """An entry."""

    __slots__ = ("modified", "value", "version")

    def __init__(self, value: float, modified: int) -> None:
        self.value = value
        self.version = 1
        self.modified = modified


class LeanEnvironment:
    """Entries, their exact sum and a gate that counts them."""

    __slots__ = ("count", "count_target", "entries", "generation", "number", "partials")

    def __init__(self, number: int, count_target: int) -> None:
        self.number = number
        self.entries: dict[str, LeanEntry] = {}
        self.count = 0
        self.count_target = count_target
        self.generation = 1
        self.partials: list[float] = []


def add_exactly(partials: list[float], value: float) -> None:
    """Add to a sum held as non-overlapping partials (Shewchuk 1997, grow-expansion)."""
    kept = 0
    for partial in partials:
        larger, smaller = (value, partial) if abs(value) >= abs(partial) else (partial, value)
        value = larger + smaller
        rest = smaller - (value - larger)
        if rest:
            partials[kept] = rest
            kept += 1
    partials[kept:] = [value]


class LeanLog:
    """One LMDB, one writer thread: all that is queued becomes one transaction and one fsync."""

    def __init__(self, directory: Path, loop: asyncio.AbstractEventLoop) -> None:
        self._env = lmdb.open(str(directory), map_size=MAP_BYTES, max_dbs=2)
        self._log = self._env.open_db(b"log")
        self._state = self._env.open_db(b"state")
        self._loop = loop
        self._queue: SimpleQueue[tuple[bytes, State, asyncio.Future[None]] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="lean-writer", daemon=True)
        self._thread.start()

    def append(self, record: bytes, state: State) -> asyncio.Future[None]:
        """Queue a record; the future is done when it is on the disk."""
        done: asyncio.Future[None] = self._loop.create_future()
        self._queue.put((record, state, done))
        return done

    def close(self) -> None:
        """Return when everything queued is on the disk and the files are closed."""
        self._queue.put(None)
        self._thread.join()
        self._env.close()

    def _run(self) -> None:
        number = 0
        while (one := self._queue.get()) is not None:
            group = [one]
            try:
                while (one := self._queue.get_nowait()) is not None:
                    group.append(one)
                self._queue.put(None)  # to end with, after this group
            except Empty:
                pass
            with self._env.begin(write=True) as transaction:
                for record, state, _ in group:
                    number += 1
                    transaction.put(_NUMBER.pack(number), record, append=True, db=self._log)
                    if state:
                        transaction.cursor(self._state).putmulti(state)
            self._loop.call_soon_threadsafe(_finish, [done for _, _, done in group])


class LeanEngine:
    """Executes frames in the order in which they come. Lives in one event loop."""

    def __init__(self, log: LeanLog, gate_count: int = 0) -> None:
        """The gate of each environment opens after `gate_count` entries; 0 = never."""
        self.revision = 0
        self._log = log
        self._gate_count = gate_count or 1 << 60
        self._environments: dict[str, LeanEnvironment] = {}
        self._marks: dict[str, int] = {}
        self._unsaved: dict[tuple[int, str], LeanEntry] = {}
        self._last_versions: list[int] = []

    def execute(self, frame: session_pb2.OpFrame) -> tuple[session_pb2.FrameAnswer, asyncio.Future[None]]:
        """Apply a frame of one block of doubles; the answer may leave when the future is done."""
        environment = self._find(frame.paths[0])
        block = frame.block
        keys, values = list(block.keys), list(block.doubles)
        base = self.revision
        failed, versions = self._apply(environment, keys, values, frame)
        self._last_versions = versions
        answer = session_pb2.FrameAnswer(seq=frame.seq, base_revision=base, count=len(keys), revision=self.revision)
        record = record_pb2.Record(
            base_revision=base, last_revision=self.revision, paths=frame.paths, path=[0], types=[1], versions=versions
        )
        if failed:
            answer.without_revision.extend(failed)
            answer.outcomes.extend(operations_pb2.OpOutcome(index=index) for index in failed)
            lost = set(failed)
            keys = [key for index, key in enumerate(keys) if index not in lost]
            values = [value for index, value in enumerate(values) if index not in lost]
        record.keys.extend(keys)
        record.doubles.extend(values)
        record.producers.extend(frame.producers)
        record.producer_seqs.extend(frame.producer_seqs)
        kept = record_pb2.FrameOutcome(client_id="lean", seq=frame.seq, answer=answer.SerializeToString())
        record.frames.append(kept)
        return answer, self._log.append(record.SerializeToString(), self._take_state())

    def encode_events(self, frame: session_pb2.OpFrame, answer: session_pb2.FrameAnswer) -> bytes:
        """The changes of the frame that was executed last, all of which had an effect, as an EventFrame."""
        return events_pb2.EventFrame(
            watch_id=1,
            count=answer.count,
            through_revision=answer.revision,
            first_revision=answer.base_revision + 1,
            paths=frame.paths,
            types=[events_pb2.EVENT_TYPE_ENTRY_SET],
            keys=frame.block.keys,
            value_kinds=[_DOUBLE],
            doubles=frame.block.doubles,
            versions=self._last_versions,
        ).SerializeToString()

    def put(self, path: str, key: str, value: float) -> tuple[int, int, asyncio.Future[None]]:
        """Apply one op: its revision, its version, and the future that is done when it is durable."""
        environment = self._find(path)
        _, versions = self._apply(environment, [key], [value], session_pb2.OpFrame())
        record = record_pb2.Record(
            base_revision=self.revision - 1, last_revision=self.revision, paths=[path], path=[0], types=[1]
        )
        record.keys.append(key)
        record.doubles.append(value)
        record.versions.extend(versions)
        return self.revision, versions[0], self._log.append(record.SerializeToString(), self._take_state())

    def _apply(
        self, environment: LeanEnvironment, keys: list[str], values: list[float], frame: session_pb2.OpFrame
    ) -> tuple[list[int], list[int]]:
        """Apply a block; returns the indexes of ops without effect, and the versions of the others."""
        entries, marks, unsaved = environment.entries, self._marks, self._unsaved
        partials, number, revision = environment.partials, environment.number, self.revision
        failed: list[int] = []
        versions: list[int] = []
        index = -1
        columns = (
            keys,
            values,
            _column(frame.producers),
            _column(frame.producer_seqs),
            _column(frame.gate_generations),
        )
        for key, value, producer, seq, generation in zip(*columns, strict=False):
            index += 1
            if producer:
                if marks.get(producer, -1) >= seq:
                    failed.append(index)
                    continue
                marks[producer] = seq
            if generation and generation != environment.generation:
                failed.append(index)
                continue
            revision += 1
            entry = entries.get(key)
            if entry is None:
                entry = entries[key] = LeanEntry(value, revision)
                environment.count += 1
                if environment.count == environment.count_target:
                    environment.generation += 1
            else:
                entry.version += 1
                add_exactly(partials, -entry.value)
                entry.value = value
                entry.modified = revision
            add_exactly(partials, value)
            unsaved[number, key] = entry
            versions.append(entry.version)
        self.revision = revision
        return failed, versions

    def _find(self, path: str) -> LeanEnvironment:
        environment = self._environments.get(path)
        if environment is None:
            environment = self._environments[path] = LeanEnvironment(len(self._environments), self._gate_count)
        return environment

    def _take_state(self) -> State:
        if len(self._unsaved) <= STATE_KEYS_MAX:
            return []
        state = [
            (_NUMBER.pack(number) + key.encode(), _STATE.pack(entry.version, entry.value))
            for (number, key), entry in self._unsaved.items()
        ]
        state.sort()
        self._unsaved.clear()
        return state


def _column(values: Any) -> Iterable[Any]:
    """A column of a frame, an element an op: empty = none, one element = the same for all."""
    if len(values) > 1:
        return list(values)
    return repeat(values[0] if values else 0)


def _finish(futures: list[asyncio.Future[None]]) -> None:
    for future in futures:
        if not future.done():
            future.set_result(None)
