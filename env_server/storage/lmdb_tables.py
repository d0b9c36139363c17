"""Opening a world's directory, and refusing one that must not be opened. Nothing here ever deletes anything."""

import fcntl
import json
import os
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import lmdb

from env_server.model.limits import Limits
from env_server.model.ports import Head, Origin
from env_server.storage import layout
from env_server.storage.errors import DataLoss, StorageError, StorageFormat, StorageInUse, StorageUnreadable
from env_server.storage.lmdb_pages import lacks_only_free_pages
from env_server.storage.log_reading import check_head, read_record

READERS_MAX: Final = 512
"""Read transactions at a time: open pages of lists, readers of the log and one writer."""


class Tables:
    """An open LMDB environment with its tables, owned by this process until it is closed."""

    def __init__(self, directory: Path, owner: int, env: Any, databases: dict[str, Any]) -> None:
        self.directory = directory
        self.env = env
        self._owner = owner
        self._databases = databases

    def __getitem__(self, table: str) -> Any:
        """LMDB's handle of a table of layout.TABLES."""
        return self._databases[table]

    def items(self) -> Iterator[tuple[str, Any]]:
        """Name and handle of every table."""
        return iter(self._databases.items())

    def begin_read(self) -> Any:
        """A read transaction. Readers of processes that were killed are let go of when they have taken all places."""
        try:
            return self.env.begin()
        except lmdb.ReadersFullError:
            self.env.reader_check()
            return self.env.begin()

    def close(self) -> None:
        """Closes the environment and lets others open the directory. No transaction may be open."""
        self.env.close()
        os.close(self._owner)


def open_tables(directory: Path, limits: Limits, new_history: Callable[[], str]) -> Tables:
    """Opens a world, or makes one where nothing is.

    Raises:
        StorageInUse, StorageFormat, StorageUnreadable, DataLoss: as their names say; the directory is unchanged.
        OSError: the directory cannot be made or read.
    """
    created = not directory.exists()
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    owner = own(directory)
    try:
        return _open_owned(directory, owner, limits, new_history, created)
    except BaseException:
        os.close(owner)
        raise


@contextmanager
def told_where(directory: Path) -> Iterator[None]:
    """Turns what LMDB and the decoders raise while reading into errors that name the directory."""
    try:
        yield
    except DataLoss as error:
        raise error.at(str(directory)) from error
    except lmdb.Error as error:
        raise DataLoss(str(directory), f"LMDB cannot read it ({error})") from error
    except (struct.error, ValueError, LookupError) as error:  # pages that are not what they were
        raise DataLoss(str(directory), f"what LMDB reads makes no sense ({error})") from error


def read_head(tables: Tables) -> Head:
    """Where the world stands, checked against the log.

    Raises:
        StorageUnreadable: the metadata is damaged.
        DataLoss: the log contradicts it.
    """
    with told_where(tables.directory), tables.env.begin() as transaction:
        meta = tables[layout.META]
        history = transaction.get(layout.META_HISTORY, db=meta)
        numbers = transaction.get(layout.META_HEAD, db=meta)
        applied = transaction.get(layout.META_APPLIED, db=meta)
        if not history or len(numbers or b"") != layout.HEAD.size or len(applied or b"") != layout.NUMBER.size:
            raise StorageUnreadable(str(tables.directory), "the metadata is incomplete")
        revision, record_number, next_environment = layout.HEAD.unpack(numbers)
        origin = transaction.get(layout.META_ORIGIN, db=meta)
        first = last = None
        first_revision = revision + 1
        cursor = transaction.cursor(tables[layout.LOG])
        if cursor.first():
            first = cursor.key()
            # Whole, since nothing else reads it when the state has all of it: what it says decides what is retained.
            first_revision = read_record(first, cursor.value()).base_revision + 1
            cursor.last()
            last = cursor.key()
        head = Head(
            history=history.decode(),
            revision=revision,
            record_number=record_number,
            next_environment_number=next_environment,
            first_revision=first_revision,
            applied_through=layout.NUMBER.unpack(applied)[0],
            restored_from=None if origin is None else Origin(**json.loads(origin)),
        )
        check_head(head, first, last, transaction.stat(tables[layout.LOG])["entries"])
    return head


def measure(transaction: Any, tables: Tables) -> tuple[int, int]:
    """Bytes of the pages that hold data: of all tables, and of the log alone. Costs about ten microseconds."""
    total = log = 0
    for name, database in tables.items():
        stat = transaction.stat(database)
        size = (stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"]) * stat["psize"]
        total += size
        if name == layout.LOG:
            log = size
    return total, log


def own(directory: Path) -> int:
    """Locks a world's directory until the returned descriptor is closed.

    flock belongs to the open file, so that it refuses a second open in this process too.

    Raises:
        StorageInUse.
    """
    owner = os.open(directory / layout.OWNER_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        text = os.pread(owner, 32, 0).decode(errors="replace").strip()
        os.close(owner)
        raise StorageInUse(str(directory), int(text) if text.isdecimal() else 0) from None
    os.ftruncate(owner, 0)
    os.pwrite(owner, f"{os.getpid()}\n".encode(), 0)
    return owner


def _open_owned(directory: Path, owner: int, limits: Limits, new_history: Callable[[], str], created: bool) -> Tables:
    where = str(directory)
    data = directory / layout.DATA_FILE
    is_new = not data.exists()
    if not is_new and not data.stat().st_size:
        # A start that died at once leaves this behind, but so does a file that was cut off.
        raise StorageUnreadable(
            where, f"{layout.DATA_FILE} is empty; if the world was never used, remove the directory"
        )
    try:
        env = lmdb.open(
            where,
            map_size=limits.map_bytes,
            max_dbs=len(layout.TABLES),
            max_readers=READERS_MAX,
            metasync=True,
            sync=True,
            writemap=False,
            lock=True,
            mode=0o600,
        )
    except lmdb.Error as error:
        raise StorageUnreadable(where, f"LMDB cannot open it ({error})") from error
    try:
        info = env.info()
        is_short = not is_new and data.stat().st_size < (info["last_pgno"] + 1) * env.stat()["psize"]
        if is_short and not lacks_only_free_pages(data):
            raise DataLoss(where, f"{layout.DATA_FILE} is cut off")  # touching the missing pages would be a SIGBUS
        env.reader_check()  # readers of a killed process would keep pages from being used again
        tables = Tables(directory, owner, env, _open_databases(env, where, new_history))
        _settle_history(tables, limits.ahead_ms_max > 0, new_history)
        if is_new:
            _sync_names(directory, created)
        return tables
    except BaseException:
        env.close()
        raise


def _open_databases(env: Any, where: str, new_history: Callable[[], str]) -> dict[str, Any]:
    """Handles of all tables; makes them, with the metadata, in one transaction where there is none at all."""
    try:
        if env.stat()["entries"] == 0:
            with env.begin(write=True) as transaction:
                databases = {name: env.open_db(name.encode(), txn=transaction) for name in layout.TABLES}
                meta = databases[layout.META]
                transaction.put(layout.META_FORMAT, str(layout.FORMAT_VERSION).encode(), db=meta)
                transaction.put(layout.META_HISTORY, new_history().encode(), db=meta)
                transaction.put(layout.META_HEAD, layout.HEAD.pack(0, 0, 0), db=meta)
                transaction.put(layout.META_APPLIED, layout.NUMBER.pack(0), db=meta)
            return databases
        meta = env.open_db(layout.META.encode(), create=False)
        with env.begin() as transaction:
            version = transaction.get(layout.META_FORMAT, db=meta, default=b"")
        if not version.isdigit():
            raise StorageUnreadable(where, "it names no storage format")
        if int(version) != layout.FORMAT_VERSION:
            raise StorageFormat(where, int(version), layout.FORMAT_VERSION)
        return {name: env.open_db(name.encode(), create=False) for name in layout.TABLES}
    except lmdb.Error as error:
        if isinstance(error, lmdb.DiskError | lmdb.MapFullError):
            raise StorageError(
                where, f"cannot be written ({error})", "make room on the disk or raise map_bytes"
            ) from error
        raise StorageUnreadable(where, f"a table is missing or damaged ({error})") from error


def _settle_history(tables: Tables, is_ahead: bool, new_history: Callable[[], str]) -> None:
    """Begins a new history if answers may have been lost, and marks the world if this server may lose some."""
    meta = tables[layout.META]
    with tables.env.begin() as transaction:
        was_ahead = transaction.get(layout.META_AHEAD, db=meta) is not None
    if not (was_ahead or is_ahead):
        return
    with tables.env.begin(write=True) as transaction:
        if was_ahead:
            transaction.put(layout.META_HISTORY, new_history().encode(), db=meta)
            transaction.delete(layout.META_AHEAD, db=meta)
        if is_ahead:
            transaction.put(layout.META_AHEAD, b"", db=meta)


def _sync_names(directory: Path, created: bool) -> None:
    """Makes the new files' names durable: fsync of a file does not cover its directory."""
    for name in (directory, directory.parent) if created else (directory,):
        descriptor = os.open(name, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
