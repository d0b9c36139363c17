"""MemoryCommitLog: the commit log of a simulated engine, and the disk that survives its crashes.

Everything goes through the same encoders as on a real disk. A group becomes durable in the clock's next step after
it was appended, all that were appended by then together, as by one fsync.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import Any

from env_server.model.changes import Changes
from env_server.model.limits import Limits
from env_server.model.ports import Clock, Head, Loaded, StateChunk
from env_server.storage import layout, rows
from env_server.storage.errors import StorageClosed, StorageInUse
from env_server.storage.groups import Group, seal_group
from env_server.storage.log_reading import check_head, check_retained, replay, select
from env_server.storage.rows import Pair
from env_server.storage.trimming import COMPACTED_RECORDS_MAX, TRIMMED_RECORDS_MAX, Trimming


class MemoryDisk:
    """What is durable of one world. Open a log on it again to see what a restart would see."""

    def __init__(self) -> None:
        self.tables: dict[str, dict[bytes, bytes]] = {name: {} for name in layout.TABLES}
        self.opened = False

    def sorted_pairs(self, table: str) -> Iterator[Pair]:
        """The rows of a table in key order."""
        return iter(sorted(self.tables[table].items()))


class MemoryCommitLog:
    """See ports.CommitLog; `kill` and `fail_next` cause what happens to processes and disks."""

    def __init__(self, disk: MemoryDisk, clock: Clock, limits: Limits, head: Head) -> None:
        self._disk = disk
        self._clock = clock
        self._limits = limits
        self._head = head
        self._next_environment_number = head.next_environment_number
        self._applied_through = head.applied_through
        self._pending: list[Group] = []
        self._started = False
        self._ended = False
        self._failure: BaseException | None = None
        self._failed = False
        self._call: Callable[..., object]
        self._on_durable: Callable[[int], None]
        self._on_fatal: Callable[[BaseException], None]
        self._trimming = Trimming(limits.log_bytes_max, int(limits.log_age_s * 1e9))
        self._log_keys = sorted(disk.tables[layout.LOG])
        self._log_bytes = sum(map(len, disk.tables[layout.LOG].values()))
        self._held = (0, 0)

    @classmethod
    def open(cls, disk: MemoryDisk, clock: Clock, limits: Limits, new_history: Callable[[], str]) -> "MemoryCommitLog":
        """Opens the world on `disk`, or makes one whose history is `new_history()` on an empty one.

        Raises:
            StorageInUse, DataLoss: as LmdbCommitLog.open.
        """
        if disk.opened:
            raise StorageInUse("", 0)
        meta = disk.tables[layout.META]
        if not meta:
            meta[layout.META_FORMAT] = str(layout.FORMAT_VERSION).encode()
            meta[layout.META_HISTORY] = new_history().encode()
            meta[layout.META_HEAD] = layout.HEAD.pack(0, 0, 0)
            meta[layout.META_APPLIED] = layout.NUMBER.pack(0)
        if meta.pop(layout.META_AHEAD, None) is not None:
            meta[layout.META_HISTORY] = new_history().encode()
        if limits.ahead_ms_max:
            meta[layout.META_AHEAD] = b""
        log = cls(disk, clock, limits, _read_head(disk))
        disk.opened = True
        return log

    def load(self) -> Loaded:
        """What was found. For the time before `start`; each part can be read once."""
        pairs = self._disk.sorted_pairs
        return Loaded(
            head=self._head,
            environments=rows.decode_environments(pairs(layout.ENVIRONMENTS)),
            entries=rows.decode_entries(pairs(layout.ENTRIES)),
            items=rows.decode_items(pairs(layout.ITEMS)),
            producers=rows.decode_producers(pairs(layout.PRODUCERS)),
            sessions=rows.decode_sessions(pairs(layout.SESSIONS)),
            facts=rows.decode_facts(pairs(layout.FACTS)),
            records=replay(pairs(layout.LOG), self._head),
        )

    def start(
        self,
        *,
        call: Callable[..., object],
        on_durable: Callable[[int], None],
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        """As LmdbCommitLog.start; there is no thread, so `call` may be `lambda f, x: f(x)`."""
        self._call, self._on_durable, self._on_fatal = call, on_durable, on_fatal
        self._started = True

    def append(self, changes: Changes, state: StateChunk | None) -> None:
        """See ports.CommitLog.

        Raises:
            StorageClosed: not started, or ended.
        """
        if not self._started or self._ended:
            raise StorageClosed("", "append needs a log that is started and not closed")
        group = seal_group(changes, state, self._next_environment_number)
        self._next_environment_number = group.next_environment_number
        if not self._pending:
            self._clock.call_soon(self._commit)
        self._pending.append(group)

    def read(self, from_revision: int, bytes_max: int) -> list[Changes]:
        """See ports.CommitLog.

        Raises:
            OutOfRange: REVISION_COMPACTED.
            DataLoss: a record is damaged.
            StorageClosed: ended.
        """
        if self._ended:
            raise StorageClosed("", "read needs an open log")
        revision = layout.HEAD.unpack(self._disk.tables[layout.META][layout.META_HEAD])[0]
        check_retained(from_revision, self.first_revision, revision)
        start = bisect_left(self._log_keys, layout.log_key(from_revision, 0))
        log = self._disk.tables[layout.LOG]
        return select(((key, log[key]) for key in self._log_keys[start:]), from_revision, bytes_max, revision)

    @property
    def first_revision(self) -> int:
        """See ports.CommitLog."""
        return _first_revision(self._disk)

    @property
    def owes_compaction(self) -> bool:
        """See ports.CommitLog."""
        return bool(self._log_keys) and self._trimming.owes(layout.LOG_KEY.unpack(self._log_keys[0])[0])

    @property
    def held(self) -> tuple[int, int]:
        """See ports.CommitLog."""
        return self._held

    def retain(self, revision: int | None) -> None:
        """See ports.CommitLog."""
        self._trimming.retained = revision

    def compact(self, revision: int) -> None:
        """See ports.CommitLog."""
        self._trimming.compact_below = max(self._trimming.compact_below, revision)

    def storage_bytes(self) -> int:
        """Bytes of all keys and values."""
        return sum(len(key) + len(value) for table in self._disk.tables.values() for key, value in table.items())

    def room_bytes(self) -> int:
        """As if the disk had room for the whole map."""
        return self._limits.map_bytes

    def close(self) -> None:
        """See ports.CommitLog."""
        if self._ended:
            return
        self._commit()
        if not self._failed:
            self._disk.tables[layout.META].pop(layout.META_AHEAD, None)
        self.kill()

    def kill(self) -> None:
        """Ends the log as SIGKILL would: what is not durable is gone, nothing is reported any more."""
        if not self._ended:
            self._ended = True
            self._pending = []
            self._disk.opened = False

    def fail_next(self, error: BaseException) -> None:
        """Makes the next commit fail with `error`; as on a real disk, nothing is durable afterwards."""
        self._failure = error

    def _commit(self) -> None:
        groups, self._pending = self._pending, []
        if not groups or self._failed:
            return
        if self._failure is not None:
            self._failed = True
            self._call(self._on_fatal, self._failure)
            return
        for group in groups:
            self._write(group)
        self._trim(groups[-1])
        self._call(self._on_durable, groups[-1].number)

    def _write(self, group: Group) -> None:
        tables = self._disk.tables
        key = layout.log_key(group.last_revision, group.number)
        tables[layout.LOG][key] = group.value
        self._log_keys.append(key)
        self._log_bytes += len(group.value)
        if group.state is not None:
            self._write_chunk(group.state)
        meta = tables[layout.META]
        meta[layout.META_HEAD] = layout.HEAD.pack(group.last_revision, group.number, group.next_environment_number)

    def _write_chunk(self, chunk: StateChunk) -> None:
        tables = self._disk.tables
        for table, puts, deletes in rows.encode_chunk(chunk):
            tables[table].update(puts)
            for key in deletes:
                tables[table].pop(key, None)
        if gone := set(chunk.entry_ranges_deleted):
            for name in (layout.ENTRIES, layout.ITEMS, layout.FACTS):
                kept = [(key, row) for key, row in tables[name].items() if layout.owner_of(name, key) not in gone]
                tables[name] = dict(kept)
        if chunk.applied_through is not None:
            self._applied_through = chunk.applied_through
            tables[layout.META][layout.META_APPLIED] = layout.NUMBER.pack(chunk.applied_through)

    def _trim(self, newest: Group) -> None:
        log, trimming = self._disk.tables[layout.LOG], self._trimming
        for count, key in enumerate(self._log_keys[:COMPACTED_RECORDS_MAX]):
            last_revision, number = layout.LOG_KEY.unpack(key)
            if not trimming.may_go(last_revision, number, self._applied_through):
                break
            if not trimming.is_asked(last_revision):
                wall_ns = layout.LOG_HEADER.unpack_from(log[key])[1]
                is_due = trimming.is_due(wall_ns, newest.wall_ns, lambda: self._log_bytes)
                if count >= TRIMMED_RECORDS_MAX or not is_due:
                    break
            self._log_bytes -= len(log.pop(key))
            self._log_keys.pop(0)
        held = trimming.find_held(layout.LOG_KEY.unpack(self._log_keys[0])[0]) if self._log_keys else 0
        self._held = (held, self._log_bytes) if held else (0, 0)


def _first_revision(disk: MemoryDisk) -> int:
    first: Any = next(iter(disk.tables[layout.LOG].values()), None)
    if first is None:
        return int(layout.HEAD.unpack(disk.tables[layout.META][layout.META_HEAD])[0]) + 1
    return int(layout.LOG_HEADER.unpack_from(first)[2]) + 1


def _read_head(disk: MemoryDisk) -> Head:
    meta = disk.tables[layout.META]
    revision, record_number, next_environment = layout.HEAD.unpack(meta[layout.META_HEAD])
    keys = sorted(disk.tables[layout.LOG])
    head = Head(
        history=meta[layout.META_HISTORY].decode(),
        revision=revision,
        record_number=record_number,
        next_environment_number=next_environment,
        first_revision=_first_revision(disk),
        applied_through=layout.NUMBER.unpack(meta[layout.META_APPLIED])[0],
    )
    check_head(head, keys[0] if keys else None, keys[-1] if keys else None, len(keys))
    return head
