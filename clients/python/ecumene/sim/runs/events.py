"""Records the events of a run: a watch on its world, written in part files as it goes."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import shutil
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ecumene.client.event_batch import EventBatch
from ecumene.client.model import EventFilter, EventType, Value
from ecumene.client.records import BOOKS, EVENTS, close_part, list_parts, name_part
from ecumene.client.values import encode_json
from ecumene.client.world import World

PART_AGE_S_MAX = 4.0
PART_ROWS_MAX = 250_000
SOURCE = "conductor"
NUMBER_MAX = 2**63 - 1


class EventRecorder:
    """Async context manager: records what happens in a world from its entering on.

    Part files appear at most `PART_AGE_S_MAX` + the time of a write after their first event. The order of the
    log is kept. Memory is bounded by a part and by the window of the watch.
    """

    def __init__(
        self,
        world: World,
        directory: Path,
        *,
        run: str,
        event_filter: EventFilter | None = None,
        from_revision: int = 0,
    ) -> None:
        """`from_revision`: of the first event, unless some are recorded here already; 0 = those to come."""
        self._world = world
        self._directory = directory
        self._run = run
        self._filter = event_filter or EventFilter()
        self._staging = directory / ".staging" / SOURCE
        self._tables: list[pa.Table] = []
        self._pending = 0
        parts = list_parts(directory, EVENTS, SOURCE)
        self._number = max(parts.values(), default=0)
        self._from_revision = read_last_revision(parts) + 1 if parts else from_revision
        self._reached = asyncio.Condition()
        self._through_revision = self._from_revision - 1
        self._recording: asyncio.Task[None] | None = None
        # One thread: a write that is under way when the recording ends is finished before the last one.
        self._disk = ThreadPoolExecutor(max_workers=1)
        self.recorded = 0
        """Events on disk."""

    async def __aenter__(self) -> Self:
        self._staging.mkdir(parents=True, exist_ok=True)
        (self._directory / EVENTS.name).mkdir(parents=True, exist_ok=True)
        watch = self._world.watch_frames(self._filter, from_revision=self._from_revision)
        self._recording = asyncio.create_task(self._record(watch), name=f"record events of {self._run}")
        return self

    async def __aexit__(self, *_: object) -> None:
        """Write what was received, then stop."""
        recording = self._recording
        if recording is None:
            return
        recording.cancel()
        await asyncio.gather(recording, return_exceptions=True)
        try:
            await self._flush()
        finally:
            self._disk.shutdown()
            shutil.rmtree(self._staging, ignore_errors=True)
            with contextlib.suppress(OSError):
                self._staging.parent.rmdir()
        if not recording.cancelled() and (error := recording.exception()) is not None:
            raise error

    async def wait_for(self, revision: int) -> None:
        """Wait until everything up to a revision was received; it is on disk after the context is left.

        Raises what ended the recording, if it did: OSError of the disk, EcumeneError of the watch.
        """
        assert self._recording is not None
        async with self._reached:
            while self._through_revision < revision:
                if self._recording.done():
                    self._recording.result()
                    return
                await self._reached.wait()

    async def _record(self, watch: Any) -> None:
        loop = asyncio.get_running_loop()
        try:
            async with watch:
                batches = aiter(watch)
                oldest_at = loop.time()
                while True:
                    waits_until = oldest_at + PART_AGE_S_MAX if self._pending else None
                    batch = await _next_batch(batches, waits_until)
                    if batch is not None:
                        oldest_at = oldest_at if self._pending else loop.time()
                        await self._take(batch)
                    if self._pending >= PART_ROWS_MAX or (self._pending and loop.time() >= oldest_at + PART_AGE_S_MAX):
                        await self._flush()
        finally:
            async with self._reached:
                self._reached.notify_all()

    async def _take(self, batch: EventBatch) -> None:
        rows = build_rows(batch, self._run) if len(batch) else None
        if rows is not None and len(rows):
            self._tables.append(rows)
            self._pending += len(rows)
        async with self._reached:
            self._through_revision = max(self._through_revision, batch.through_revision)
            if len(batch):
                self._through_revision = max(self._through_revision, batch.revisions[-1])
            self._reached.notify_all()

    async def _flush(self) -> None:
        await asyncio.get_running_loop().run_in_executor(self._disk, self._write_part)

    def _write_part(self) -> None:
        if not self._pending:
            return
        rows = pa.concat_tables(self._tables).unify_dictionaries()
        target = self._directory / EVENTS.name / name_part(SOURCE, self._number + 1)
        close_part(rows, target, self._staging)
        self._number += 1
        self.recorded += self._pending
        self._tables.clear()
        self._pending = 0


def read_last_revision(parts: Mapping[Path, int]) -> int:
    """The last revision that is recorded; a part holds whole ones. Raises OSError."""
    newest = max(parts, key=lambda part: parts[part])
    return int(pc.max(pq.read_table(newest, columns=["revision"])["revision"]).as_py())


async def _next_batch(batches: Any, until: float | None) -> EventBatch | None:
    """The next batch, or None when it does not come in time."""
    try:
        async with asyncio.timeout_at(until):
            batch: EventBatch = await anext(batches)
            return batch
    except TimeoutError:
        return None
    except StopAsyncIteration as error:
        raise asyncio.CancelledError from error  # only this recorder ends its watch


def build_rows(batch: EventBatch, run: str) -> pa.Table:
    """Events as rows of the recorded table; what runtimes note in their own books is left out."""
    count = len(batch)
    columns: dict[str, Sequence[Any]] = {
        "run": [run] * count,
        "revision": batch.revisions,
        "index": _count_within_revisions(batch.revisions),
        "type": [EventType(number).name.lower() for number in batch.types],
        "path": batch.paths,
        "key": batch.keys,
        **_split_values(batch.values),
        "version": batch.versions,
        "actor": [actor or None for actor in batch.actors],
        "cause": [cause or None for cause in batch.causes],
        "producer": [producer or None for producer in batch.producers],
        # A call by itself is numbered by a hash of 64 bits, which says nothing to anybody.
        "producer_seq": [seq if 0 < seq <= NUMBER_MAX else None for seq in batch.producer_seqs],
        "sim_time_ns": batch.sim_times_ns,
        "wall_time_ns": batch.wall_times_ns,
    }
    schema = EVENTS.schema
    rows = pa.table([pa.array(columns[field.name], _plain(field.type)).cast(field.type) for field in schema], schema)
    is_kept = [path != BOOKS and not path.startswith(f"{BOOKS}/") for path in batch.paths]
    return rows if all(is_kept) else rows.filter(pa.array(is_kept))


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _count_within_revisions(revisions: Sequence[int]) -> list[int]:
    """Place of each event among those of its revision; batches hold whole revisions."""
    places = []
    before, place = 0, 0
    for revision in revisions:
        place = place + 1 if revision == before else 0
        before = revision
        places.append(place)
    return places


def _split_values(values: Sequence[Value]) -> dict[str, list[Any]]:
    """Values by kind, one column each."""
    split: dict[str, list[Any]] = {f"value_{kind}": [] for kind in ("kind", "double", "int", "text", "json")}
    for value in values:
        kind, column, stored = _describe_value(value)
        split["value_kind"].append(kind)
        for name in ("double", "int", "text", "json"):
            split[f"value_{name}"].append(stored if name == column else None)
    return split


def _describe_value(value: Value) -> tuple[str, str, Any]:
    if value is None:
        return "null", "", None
    if isinstance(value, float):
        return "double", "double", value
    if isinstance(value, bool | int):
        return ("bool" if isinstance(value, bool) else "int"), "int", int(value)
    if isinstance(value, str):
        return "string", "text", value
    if isinstance(value, bytes):
        return "bytes", "text", base64.b64encode(value).decode("ascii")
    return "json", "json", encode_json(value).decode("utf-8")
