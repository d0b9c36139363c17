"""Reading a stored world without changing a byte of it: for offline tools and for copies just made.

Formats of earlier versions can be read too: their tables may be fewer; for their rows see formats.read_row.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import lmdb

from env_server.model.ports import Head
from env_server.storage import layout
from env_server.storage.errors import DataLoss, StorageFormat, StorageUnreadable
from env_server.storage.formats import OLDEST, TABLES_OF, read_format
from env_server.storage.lmdb_pages import lacks_only_free_pages
from env_server.storage.lmdb_tables import Tables, own, read_head


class Found(NamedTuple):
    """What a directory holds, in short."""

    head: Head
    storage_format: int


def look_into(directory: Path) -> Found:
    """Head and format of the world in a directory that nobody else has open.

    Raises:
        StorageError: as `reading`, and the head contradicts the log.
    """
    with reading(directory, owned=False) as (tables, storage_format):
        return Found(read_head(tables), storage_format)


@contextmanager
def reading(directory: Path, *, owned: bool = True) -> Iterator[tuple[Tables, int]]:
    """The tables of a stored world, to read, and its format.

    With `owned` the directory is locked meanwhile, as by a server; without, nobody else may have it open.

    Raises:
        StorageInUse: a server has it open.
        StorageFormat: it was written by a newer version, or by one that nobody knows.
        StorageUnreadable, DataLoss: there is no world, or it is damaged beyond reading.
    """
    data = directory / layout.DATA_FILE
    if not data.is_file():
        raise StorageUnreadable(str(directory), f"there is no {layout.DATA_FILE}")
    owner = own(directory) if owned else None
    tables = None
    try:
        tables, storage_format = _open(directory, owner)
        yield tables, storage_format
    finally:
        if tables is not None:
            tables.env.close()
        if owner is not None:
            os.close(owner)


def _open(directory: Path, owner: int | None) -> tuple[Tables, int]:
    where = str(directory)
    data = directory / layout.DATA_FILE
    try:
        # Without LMDB's lock file: it would be made where none is, and nobody else has the world open.
        env = lmdb.open(where, max_dbs=len(layout.TABLES), readonly=True, create=False, lock=False)
    except lmdb.Error as error:
        raise StorageUnreadable(where, f"LMDB cannot open it ({error})") from error
    try:
        is_short = data.stat().st_size < (env.info()["last_pgno"] + 1) * env.stat()["psize"]
        if is_short and not lacks_only_free_pages(data):
            raise DataLoss(where, f"{layout.DATA_FILE} is cut off")
        meta = env.open_db(layout.META.encode(), create=False)
        with env.begin() as transaction:
            storage_format = read_format(transaction.get(layout.META_FORMAT, db=meta), where)
        if not OLDEST <= storage_format <= layout.FORMAT_VERSION:
            raise StorageFormat(where, storage_format, layout.FORMAT_VERSION)
        databases = {name: env.open_db(name.encode(), create=False) for name in TABLES_OF[storage_format]}
        return Tables(directory, -1 if owner is None else owner, env, databases), storage_format
    except lmdb.Error as error:
        env.close()
        raise StorageUnreadable(where, f"a table is missing or damaged ({error})") from error
    except BaseException:
        env.close()
        raise
