"""A world as the events see it: groups to publish, a log that can be trimmed and stalled, and its true history."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

from env_server.events.watch import Watch
from env_server.events.watches import WatchHub
from env_server.model.changes import Changes, EventType, Place, SentRows
from env_server.model.entries import Entry
from env_server.model.limits import Limits
from env_server.model.spaces import region_document
from env_server.model.values import NOTHING
from env_server.model.watching import Delivery, EntryMatcher, Filter, Snapshot, WatchSpec
from tests.contracts.event_stream import Seen

ROW_BYTES = 10
LOOP_STEPS_ENOUGH = 200


class Row(NamedTuple):
    """One change. Rows with `joined` share the revision of the row before."""

    path: str = "/town"
    key: str = "a"
    type: int = EventType.ENTRY_SET
    actor: str = ""
    producer: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    joined: bool = False
    sender: str = ""
    """Where the producer does not tell it."""
    region: str = ""
    """Of a crossing."""


class World:
    """Publishes what it is told to and keeps the books."""

    def __init__(self, *, ring_groups: int = 1000, pending_groups_max: int = 1024, head: int = 0) -> None:
        self.log: list[Changes] = []
        self.history: list[Seen] = []
        self.rows: dict[int, Row] = {}
        """By version, which is unique here."""
        self.state: dict[tuple[str, str], tuple[Place, Entry]] = {}
        self.applied = head
        self.unpublished: list[Changes] = []
        self.reads = 0
        self.log_is_open = asyncio.Event()
        self.log_is_open.set()
        self._numbers: dict[str, int] = {}
        self.hub = WatchHub(
            Limits(ring_bytes_max=ring_groups * ROW_BYTES),
            self.read_log,
            self.find_first_revision,
            self.take_snapshot,
            head=head,
            pending_groups_max=pending_groups_max,
        )

    def apply(self, *rows: Row, size_bytes: int = ROW_BYTES) -> Changes:
        """Makes a group that is applied but not durable yet."""
        changes = Changes(number=len(self.rows) + 1, base_revision=self.applied, size_bytes=size_bytes)
        for index, row in enumerate(rows):
            if not row.joined or index == 0:
                self.applied += 1
            self._add(changes, row)
        changes.last_revision = self.applied
        self.unpublished.append(changes)
        return changes

    def commit(self) -> None:
        """Publishes what was applied."""
        for changes in self.unpublished:
            self.log.append(changes)
            self.hub.publish(changes)
        self.unpublished.clear()

    def publish(self, *rows: Row) -> Changes:
        """Applies and publishes one group."""
        changes = self.apply(*(rows or (Row(),)))
        self.commit()
        return changes

    def trim(self, first_revision: int) -> None:
        """Forgets records that lie wholly below the revision."""
        self.log = [changes for changes in self.log if changes.last_revision >= first_revision]

    def find_first_revision(self) -> int:
        return self.log[0].base_revision + 1 if self.log else self.hub.head + 1

    async def read_log(self, from_revision: int, bytes_max: int) -> list[Changes]:
        self.reads += 1
        await asyncio.sleep(0)
        await self.log_is_open.wait()
        found: list[Changes] = []
        for changes in self.log:
            if changes.last_revision >= from_revision:
                found.append(changes)
                if len(found) == 3:
                    break
        return found

    def take_snapshot(self, matcher: EntryMatcher) -> Snapshot:
        rows = [(place, key, entry) for (_, key), (place, entry) in self.state.items()]
        return Snapshot(self.applied, iter(rows))

    def open(
        self, from_revision: int = 0, *, initial_state: bool = False, conflate: bool = False, **asked: object
    ) -> Watch:
        """A watch with a filter of these parts."""
        return self.hub.open(WatchSpec(Filter(**asked), from_revision, initial_state, conflate))  # type: ignore[arg-type]

    def keep(self, accepts: Callable[[Row], bool]) -> Callable[[Seen], bool]:
        """The filter of a definition, from a test of rows."""
        return lambda seen: accepts(self.rows[seen.version])

    def _add(self, changes: Changes, row: Row) -> None:
        number = self._numbers.setdefault(row.path, len(self._numbers) + 1)
        place = Place(number, row.path, dict(row.labels))
        if place not in changes.places:
            changes.places.append(place)
        version = len(self.rows) + 1
        self.rows[version] = row
        changes.path.append(changes.places.index(place))
        changes.revisions.append(self.applied)
        changes.types.append(row.type)
        changes.keys.append(row.key)
        value: Any = NOTHING if row.type == EventType.ENTRY_DELETED else version
        changes.values.append(region_document(row.region) if row.region else value)
        changes.versions.append(version)
        changes.producers.append(row.producer)
        changes.producer_seqs.append(0)
        changes.actors.append(row.actor)
        changes.causes.append("")
        changes.principals.append("")
        if row.sender:
            changes.sent.append(SentRows(len(changes) - 1, 1, row.sender))
        self.history.append(Seen(self.applied, row.path, row.key, row.type, version))
        if row.type == EventType.ENTRY_DELETED:
            self.state.pop((row.path, row.key), None)
        else:
            self.state[row.path, row.key] = (place, Entry(version, version, self.applied, self.applied, 1))


async def step(watch: Watch, events_max: int = 1000, loop_steps: int = LOOP_STEPS_ENOUGH) -> Delivery | None:
    """The next step if there is one within some loop steps; else None, with the call cancelled."""
    reader = asyncio.create_task(watch.next(events_max), name="reader of a test")
    for _ in range(loop_steps):
        await asyncio.sleep(0)
        if reader.done():
            return reader.result()
    reader.cancel()
    await asyncio.wait([reader])
    return None if reader.cancelled() else reader.result()


async def drain(watch: Watch, events_max: int = 1000) -> list[Delivery]:
    """Steps until there is none at hand."""
    deliveries: list[Delivery] = []
    while (delivery := await step(watch, events_max)) is not None:
        deliveries.append(delivery)
    return deliveries
