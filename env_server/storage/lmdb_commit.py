"""What one commit writes: records, state, metadata, and the slow removal of what is no longer needed."""

from collections import deque
from functools import partial
from typing import Any, Final

from env_server.diagnostics import failpoints
from env_server.model.limits import Limits
from env_server.model.ports import Head, StateChunk
from env_server.storage import layout
from env_server.storage.errors import DataLoss
from env_server.storage.groups import Group
from env_server.storage.lmdb_tables import Tables, measure
from env_server.storage.rows import encode_chunk
from env_server.storage.trimming import COMPACTED_RECORDS_MAX, TRIMMED_RECORDS_MAX, Trimming

DROPPED_KEYS_MAX: Final = 10_000
"""Keys of deleted environments that a commit removes at most."""
_PUT_ROWS: Final = 512
"""Rows that one call of LMDB writes. It keeps the interpreter's lock all the while, about 1 µs a row."""


class Committer:
    """Writes groups, one transaction for all that are given together. Belongs to the writer's thread.

    `first_revision`, `storage_bytes`, `owes_compaction` and `held` follow each commit; reading them from other threads
    is safe.
    """

    def __init__(self, tables: Tables, head: Head, limits: Limits) -> None:
        self._tables = tables
        self._applied_through = head.applied_through
        self.trimming = Trimming(limits.log_bytes_max, int(limits.log_age_s * 1e9))
        self.first_revision = head.first_revision
        self.owes_compaction = False
        self.held = (0, 0)
        with tables.env.begin() as transaction:
            self._dropping = deque(
                layout.NUMBER.unpack(key)[0] for key, _ in transaction.cursor(tables[layout.DROPPED])
            )
            self.storage_bytes = measure(transaction, tables)[0]

    def commit(self, groups: list[Group]) -> None:
        """Makes the groups durable, in order.

        Raises:
            lmdb.Error, OSError: it failed; whether the groups are on disk is unknown until the directory is reopened.
        """
        failpoints.reach("before_begin")
        transaction = self._tables.env.begin(write=True, buffers=True)
        try:
            failpoints.reach("after_begin")
            self._write(transaction, groups)
            first_revision, owes_compaction, held = self._trim(transaction, groups[-1])
            storage_bytes, log_bytes = measure(transaction, self._tables)
            failpoints.reach("before_commit")
            transaction.commit()
        except BaseException:
            transaction.abort()
            raise
        failpoints.reach("after_commit")
        self.first_revision = first_revision
        self.owes_compaction = owes_compaction
        self.storage_bytes = storage_bytes
        self.held = (held, log_bytes) if held else (0, 0)

    def _write(self, transaction: Any, groups: list[Group]) -> None:
        failpoints.reach("before_put")
        log = self._tables[layout.LOG]
        for group in groups:
            key = layout.log_key(group.last_revision, group.number)
            if not transaction.put(key, group.value, append=True, overwrite=False, db=log):
                raise DataLoss(str(self._tables.directory), f"record {group.number} does not follow the log's end")
        for group in groups:
            if group.state is not None:
                self._write_chunk(transaction, group.state)
        if self._dropping:
            self._drop(transaction)
        last = groups[-1]
        head = layout.HEAD.pack(last.last_revision, last.number, last.next_environment_number)
        transaction.put(layout.META_HEAD, head, db=self._tables[layout.META])
        failpoints.reach("after_put")

    def _write_chunk(self, transaction: Any, chunk: StateChunk) -> None:
        for table, puts, deletes in encode_chunk(chunk):
            database = self._tables[table]
            cursor = transaction.cursor(database)
            for start in range(0, len(puts), _PUT_ROWS):
                cursor.putmulti(puts[start : start + _PUT_ROWS])
            for key in deletes:
                transaction.delete(key, db=database)
        for number in chunk.entry_ranges_deleted:
            transaction.put(layout.number_key(number), b"", db=self._tables[layout.DROPPED])
            self._dropping.append(number)
        if chunk.applied_through is not None:
            self._applied_through = chunk.applied_through
            number_bytes = layout.NUMBER.pack(chunk.applied_through)
            transaction.put(layout.META_APPLIED, number_bytes, db=self._tables[layout.META])

    def _drop(self, transaction: Any) -> None:
        """Removes a slice of what deleted environments held; the table `dropped` remembers the rest."""
        remaining = DROPPED_KEYS_MAX
        while self._dropping and remaining > 0:
            number = self._dropping[0]
            for table, prefix in layout.parts_of(number):
                cursor = transaction.cursor(self._tables[table])
                found, length = cursor.set_range(prefix), len(prefix)
                while found and remaining > 0 and cursor.key()[:length] == prefix:
                    cursor.delete()
                    remaining -= 1
                    found = bool(cursor.key())
            if remaining > 0:
                transaction.delete(layout.number_key(number), db=self._tables[layout.DROPPED])
                self._dropping.popleft()
                remaining -= 1

    def _trim(self, transaction: Any, newest: Group) -> tuple[int, bool, int]:
        """Takes from the log's beginning what may and must go.

        Returns the oldest revision left, whether more is asked to go, and for whose sake the first record stays.
        """
        trimming = self.trimming
        cursor = transaction.cursor(self._tables[layout.LOG])
        cursor.first()
        for count in range(COMPACTED_RECORDS_MAX):
            key = cursor.key()
            if not key:
                return newest.last_revision + 1, False, 0
            last_revision, number = layout.LOG_KEY.unpack(key)
            if not trimming.may_go(last_revision, number, self._applied_through):
                break
            if not trimming.is_asked(last_revision):
                wall_ns = layout.LOG_HEADER.unpack_from(cursor.value())[1]
                size = partial(self._log_bytes, transaction)
                if count >= TRIMMED_RECORDS_MAX or not trimming.is_due(wall_ns, newest.wall_ns, size):
                    break
            cursor.delete()
        if not cursor.key():
            return newest.last_revision + 1, False, 0
        last_revision = layout.LOG_KEY.unpack(cursor.key())[0]
        first_revision = int(layout.LOG_HEADER.unpack_from(cursor.value())[2]) + 1
        return first_revision, trimming.owes(last_revision), trimming.find_held(last_revision)

    def _log_bytes(self, transaction: Any) -> int:
        return measure(transaction, self._tables)[1]
