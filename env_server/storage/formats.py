"""Earlier storage formats, and how a world is brought from one to the next: in one transaction, or not at all.

1 -> 2    table `facts`; rows of entries may carry a lease. Rows of format 1 stay readable as they are.
2 -> 3    checksums of rows cover the name of their table: all rows of the state tables are written once more.
3 -> 4    rows of entries may carry a position, records moves. What format 3 wrote stays readable as it is.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import lmdb

from env_server.storage import layout
from env_server.storage.errors import DataLoss, StorageError, StorageFormat, StorageUnreadable
from env_server.storage.rows import Pair, seal_again

OLDEST: Final = 1
"""The first format that can be brought up to date."""
TABLES_OF: Final[dict[int, tuple[str, ...]]] = {
    1: tuple(table for table in layout.TABLES if table != layout.FACTS),
    2: layout.TABLES,
    3: layout.TABLES,
    4: layout.TABLES,
}
"""The tables of each format."""
_MAP_SLACK_BYTES: Final = 16 << 20
"""Room for what an upgrade writes, above all that the file holds once more."""
_SEALED_ANEW: Final = 3
"""The format since which checksums cover the table."""
_SEALED: Final = tuple(table for table in layout.TABLES if table not in (layout.META, layout.LOG, layout.DROPPED))
"""Tables whose rows carry a checksum of rows.py."""


def upgrade_database(directory: Path) -> int:
    """Brings the database in `directory` to the present format; returns the one it had. Nothing else may have it open.

    It is all done in one transaction: whatever happens, it is of the old format or of the new one.

    Raises:
        StorageFormat: it is of a newer format, or of one that nobody knows.
        StorageUnreadable, DataLoss, StorageError: it cannot be read or written; nothing was changed.
    """
    where = str(directory)
    data = directory / layout.DATA_FILE
    if not data.exists():
        raise StorageUnreadable(where, f"there is no {layout.DATA_FILE}")
    try:
        map_bytes = 2 * data.stat().st_size + _MAP_SLACK_BYTES
        with lmdb.open(where, map_size=map_bytes, max_dbs=len(layout.TABLES), mode=0o600) as env:
            meta = env.open_db(layout.META.encode(), create=False)
            with env.begin(write=True) as transaction:
                found = read_format(transaction.get(layout.META_FORMAT, db=meta), where)
                if not OLDEST <= found <= layout.FORMAT_VERSION:
                    raise StorageFormat(where, found, layout.FORMAT_VERSION)
                for format_version in range(found, layout.FORMAT_VERSION):
                    _STEPS[format_version](env, transaction)
                if found != layout.FORMAT_VERSION:
                    transaction.put(layout.META_FORMAT, str(layout.FORMAT_VERSION).encode(), db=meta)
    except DataLoss as damage:
        raise damage.at(where) from None
    except lmdb.Error as error:
        if isinstance(error, lmdb.DiskError | lmdb.MapFullError):
            raise StorageError(where, f"cannot be written ({error})", "make room on the disk") from error
        raise StorageUnreadable(where, f"LMDB cannot read it ({error})") from error
    return found


def read_format(digits: bytes | None, where: str) -> int:
    """The format that the metadata names.

    Raises:
        StorageUnreadable: it names none.
    """
    if not digits or not digits.isdigit():
        raise StorageUnreadable(where, "it names no storage format")
    return int(digits)


def read_row(found: int, table: str, pair: Pair) -> Pair:
    """A row of a world of the format `found`, as the present format has it.

    Raises:
        DataLoss: it is damaged.
    """
    if found >= _SEALED_ANEW or table not in _SEALED:
        return pair
    return pair[0], seal_again(table, *pair)


def _from_1(env: Any, transaction: Any) -> None:
    env.open_db(layout.FACTS.encode(), txn=transaction, create=True)


def _from_2(env: Any, transaction: Any) -> None:
    for table in _SEALED:
        cursor = transaction.cursor(env.open_db(table.encode(), txn=transaction, create=False))
        is_row = cursor.first()
        while is_row:
            key, row = cursor.item()
            cursor.put(key, seal_again(table, key, row))
            is_row = cursor.next()


def _from_3(env: Any, transaction: Any) -> None:
    """Nothing to write: the number alone keeps earlier versions from what they could not read."""


_STEPS: Final[dict[int, Callable[[Any, Any], None]]] = {1: _from_1, 2: _from_2, 3: _from_3}
"""What leads from a format to the next one."""
