"""LmdbCommitLog: the commit log of a real server, in a directory of its own."""

import os
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from env_server.model.changes import Changes
from env_server.model.limits import Limits
from env_server.model.ports import Head, Loaded, StateChunk
from env_server.storage import layout, rows
from env_server.storage.copies import copy_environment
from env_server.storage.errors import DataLoss, StorageClosed
from env_server.storage.groups import seal_group
from env_server.storage.lmdb_commit import Committer
from env_server.storage.lmdb_tables import Tables, open_tables, read_head, told_where
from env_server.storage.log_reading import check_retained, replay, select
from env_server.storage.rows import Pair
from env_server.storage.writer import Writer

_BLOCK_BYTES: Final = 512
"""The unit of st_blocks, on every file system."""


class LmdbCommitLog:
    """See ports.CommitLog. Made by `open`, then loaded, then started."""

    def __init__(self, tables: Tables, head: Head, limits: Limits) -> None:
        self._tables = tables
        self._head = head
        self._committer = Committer(tables, head, limits)
        self._next_environment_number = head.next_environment_number
        self._writer: Writer | None = None
        self._on_fatal: Callable[[BaseException], None] = lambda error: None
        self._map_bytes = limits.map_bytes
        self._is_ahead = limits.ahead_ms_max > 0
        self._closed = False
        self._data_file = tables.directory / layout.DATA_FILE
        self._streams: list[Generator[Any, None, None]] = []
        self._reading = threading.Condition()
        self._readers = 0

    @classmethod
    def open(cls, directory: Path, limits: Limits, new_history: Callable[[], str]) -> "LmdbCommitLog":
        """Opens the world in `directory`, or makes one whose history is `new_history()` where nothing is.

        Raises:
            StorageError: the directory is in use, of another format, or damaged; it is left as it is.
            OSError: it cannot be made or read.
        """
        tables = open_tables(directory, limits, new_history)
        try:
            with told_where(directory):
                return cls(tables, read_head(tables), limits)
        except BaseException:
            tables.close()
            raise

    def load(self) -> Loaded:
        """What was found, streamed. For the time before `start`; each part can be read once.

        Raises:
            DataLoss: from the streams, when a row or record is damaged.
        """
        with self._tables.env.begin() as transaction:
            cursor = transaction.cursor(self._tables[layout.DROPPED])
            dropped = frozenset(layout.NUMBER.unpack(key)[0] for key, _ in cursor)
        return Loaded(
            head=self._head,
            environments=self._open_stream(
                self._read_table(lambda found: _none_of(dropped, rows.decode_environments(found)), layout.ENVIRONMENTS)
            ),
            entries=_without(dropped, self._open_stream(self._read_table(rows.decode_entries, layout.ENTRIES))),
            items=_without(dropped, self._open_stream(self._read_table(rows.decode_items, layout.ITEMS))),
            producers=self._open_stream(self._read_table(rows.decode_producers, layout.PRODUCERS)),
            sessions=self._open_stream(self._read_table(rows.decode_sessions, layout.SESSIONS)),
            facts=self._open_stream(self._read_table(rows.decode_facts, layout.FACTS)),
            records=self._open_stream(self._replay()),
        )

    def start(
        self,
        *,
        call: Callable[..., object],
        on_durable: Callable[[int], None],
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        """Starts the writer. `call(f, argument)` brings its reports to the world's thread."""
        self._on_fatal = on_fatal
        self._writer = Writer(self._tables.directory.name, self._committer.commit, call, on_durable, on_fatal)

    def append(self, changes: Changes, state: StateChunk | None) -> None:
        """See ports.CommitLog. The record is encoded at once, the chunk by the writer: leave its dicts alone.

        Raises:
            StorageClosed: not started, or closed.
        """
        if self._writer is None or self._closed:
            raise StorageClosed(str(self._tables.directory), "append needs a log that is started and not closed")
        try:
            group = seal_group(changes, state, self._next_environment_number)
        except Exception as defect:  # what was applied can never become durable: as if the disk had refused it
            self._on_fatal(defect)
            raise
        self._next_environment_number = group.next_environment_number
        self._writer.put(group)

    def read(self, from_revision: int, bytes_max: int) -> list[Changes]:
        """See ports.CommitLog.

        Raises:
            OutOfRange: REVISION_COMPACTED.
            DataLoss: a record is damaged.
            StorageClosed: closed.
        """
        with self._open_for("read"), told_where(self._tables.directory), self._tables.begin_read() as transaction:
            cursor = transaction.cursor(self._tables[layout.LOG])
            numbers = transaction.get(layout.META_HEAD, db=self._tables[layout.META])
            revision = layout.HEAD.unpack(numbers)[0]
            has_records = cursor.first()
            base = layout.LOG_HEADER.unpack_from(cursor.value())[2] if has_records else revision
            if has_records and from_revision <= base:
                layout.open_record(cursor.key(), cursor.value())  # a damaged first record is no compaction
            check_retained(from_revision, base + 1, revision)
            has_any = has_records and cursor.set_range(layout.log_key(from_revision, 0))
            return select(cursor.iternext() if has_any else (), from_revision, bytes_max, revision)

    def copy_to(self, file: Path) -> None:
        """Writes the world as of the last commit into a new file; on the disk on return. For a thread of its own.

        Commits and reads go on meanwhile; pages that they free are used again only once the copy is done.

        Raises:
            Exhausted: STORAGE_QUOTA: the disk has no room for it.
            StorageClosed: closed.
            lmdb.Error, OSError: it cannot be written.
        """
        with self._open_for("copy_to"):
            self._tables.begin_read().abort()  # makes room among the readers, if need be
            copy_environment(self._tables.env, file, self.storage_bytes())

    @property
    def first_revision(self) -> int:
        """See ports.CommitLog."""
        return self._committer.first_revision

    @property
    def owes_compaction(self) -> bool:
        """See ports.CommitLog."""
        return self._committer.owes_compaction

    @property
    def held(self) -> tuple[int, int]:
        """See ports.CommitLog."""
        return self._committer.held

    def retain(self, revision: int | None) -> None:
        """See ports.CommitLog."""
        self._committer.trimming.retained = revision

    def compact(self, revision: int) -> None:
        """See ports.CommitLog."""
        trimming = self._committer.trimming
        trimming.compact_below = max(trimming.compact_below, revision)

    def storage_bytes(self) -> int:
        """Bytes of the pages that hold data, as of the last commit. Pages freed inside the file do not count."""
        return self._committer.storage_bytes

    def room_bytes(self) -> int:
        """See ports.CommitLog. Pages freed inside the file are used again, so the file as it is counts as room."""
        disk = os.statvfs(self._tables.directory)
        file = self._data_file.stat()
        return min(self._map_bytes, file.st_blocks * _BLOCK_BYTES + disk.f_bavail * disk.f_frsize)

    def close(self) -> None:
        """See ports.CommitLog. Blocks until what is queued is durable and no read is under way; safe to repeat."""
        with self._reading:
            if self._closed:
                return
            self._closed = True
        if self._writer is not None:
            self._writer.stop()
        with self._reading:
            while self._readers:
                self._reading.wait()
        for stream in self._streams:  # one that was not read to its end still holds a transaction
            stream.close()
        if self._is_ahead and not (self._writer is not None and self._writer.failed):
            with self._tables.env.begin(write=True) as transaction:
                transaction.delete(layout.META_AHEAD, db=self._tables[layout.META])
        self._tables.close()

    @contextmanager
    def _open_for(self, what: str) -> Iterator[None]:
        """Around what needs the log open; `close` waits for it."""
        with self._reading:
            if self._closed:
                raise StorageClosed(str(self._tables.directory), f"{what} needs an open log")
            self._readers += 1
        try:
            yield
        finally:
            with self._reading:
                self._readers -= 1
                self._reading.notify_all()

    def _open_stream(self, stream: Generator[Any, None, None]) -> Iterator[Any]:
        self._streams.append(stream)
        return stream

    def _read_table(self, decode: Callable[[Iterator[Pair]], Iterator[Any]], table: str) -> Generator[Any, None, None]:
        with told_where(self._tables.directory), self._tables.env.begin() as transaction:
            cursor = transaction.cursor(self._tables[table])
            count = 0

            def pairs() -> Iterator[Pair]:
                nonlocal count
                for pair in cursor:
                    count += 1
                    yield pair

            yield from decode(pairs())
            kept = transaction.stat(self._tables[table])["entries"]
            if count != kept:  # rows have checksums; one that is gone has none
                raise DataLoss("", f"the table of {table} has {kept} rows, of which {count} are found")

    def _replay(self) -> Generator[Changes, None, None]:
        with told_where(self._tables.directory), self._tables.env.begin() as transaction:
            cursor = transaction.cursor(self._tables[layout.LOG])
            # From the end, where the records to replay are: their number is known, their revision is not.
            found = cursor.last()
            while found and layout.LOG_KEY.unpack(cursor.key())[1] > self._head.applied_through:
                found = cursor.prev()
            if not found:
                found = cursor.first()
            yield from replay(cursor.iternext() if found else (), self._head)


def _none_of(dropped: frozenset[int], rows_found: Iterator[Any]) -> Iterator[Any]:
    """An environment that lives is not among those of which the rest is to be thrown away: numbers are used once."""
    for row in rows_found:
        if row[0] in dropped:
            raise DataLoss("", f"environment {row[0]} lives and is marked as deleted")
        yield row


def _without(dropped: frozenset[int], rows_found: Iterator[Any]) -> Iterator[Any]:
    """Leaves out what still lies in the tables of environments that are deleted."""
    if not dropped:
        return rows_found
    return (row for row in rows_found if row[0] not in dropped)
