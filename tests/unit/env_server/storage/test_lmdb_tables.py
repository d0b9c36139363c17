"""A directory that must not be opened is refused with advice, and is left exactly as it is."""

import hashlib
from collections.abc import Callable
from pathlib import Path

import lmdb
import pytest

from env_server.model.limits import Limits
from env_server.storage import layout
from env_server.storage.errors import DataLoss, StorageFormat, StorageUnreadable
from env_server.storage.lmdb_log import LmdbCommitLog
from tests.contracts.commit_log import make_chunk, make_group
from tests.unit.env_server.storage.stands import LmdbStand

LIMITS = Limits(map_bytes=64 << 20)


def write_world(directory: Path) -> None:
    stand = LmdbStand(directory)
    log = stand.open(LIMITS)
    stand.start(log)
    log.append(make_group([]), make_chunk(None))
    log.close()


def edit_meta(directory: Path, edit: Callable[[lmdb.Transaction, object], object]) -> None:
    with lmdb.open(str(directory), map_size=64 << 20, max_dbs=16) as env:
        meta = env.open_db(layout.META.encode())
        with env.begin(write=True) as transaction:
            edit(transaction, meta)


def digest(directory: Path) -> str:
    return hashlib.sha256((directory / layout.DATA_FILE).read_bytes()).hexdigest()


@pytest.mark.parametrize(
    ("key", "value", "error", "advice"),
    [
        (layout.META_FORMAT, b"5", StorageFormat, "newer"),
        (layout.META_FORMAT, b"2", StorageFormat, "ecumene offline upgrade"),
        (layout.META_FORMAT, b"?", StorageUnreadable, "ecumene offline verify"),
        (layout.META_HISTORY, b"", StorageUnreadable, "ecumene offline verify"),
        (layout.META_HEAD, b"short", StorageUnreadable, "ecumene offline verify"),
        (layout.META_HEAD, layout.HEAD.pack(9, 9, 0), DataLoss, "ecumene offline verify"),
        (layout.META_APPLIED, layout.NUMBER.pack(9), DataLoss, "ecumene offline verify"),
    ],
)
def test_damaged_metadata_is_refused(
    tmp_path: Path, key: bytes, value: bytes, error: type[StorageUnreadable], advice: str
) -> None:
    write_world(tmp_path)
    edit_meta(tmp_path, lambda transaction, meta: transaction.put(key, value, db=meta))
    before = digest(tmp_path)
    with pytest.raises(error, match=advice) as refused:
        LmdbCommitLog.open(tmp_path, LIMITS, lambda: "new")
    assert str(tmp_path) in str(refused.value)
    assert digest(tmp_path) == before


def test_a_missing_table_is_refused(tmp_path: Path) -> None:
    write_world(tmp_path)
    with lmdb.open(str(tmp_path), map_size=64 << 20, max_dbs=16) as env, env.begin(write=True) as transaction:
        transaction.drop(env.open_db(layout.LOG.encode(), txn=transaction))
    with pytest.raises(StorageUnreadable, match="table is missing"):
        LmdbCommitLog.open(tmp_path, LIMITS, lambda: "new")


@pytest.mark.parametrize("length", [0, 4096, 8192, 20_000])
def test_a_file_that_was_cut_off_is_refused(tmp_path: Path, length: int) -> None:
    write_world(tmp_path)
    data = tmp_path / layout.DATA_FILE
    data.write_bytes(data.read_bytes()[:length])
    with pytest.raises(StorageUnreadable):
        LmdbCommitLog.open(tmp_path, LIMITS, lambda: "new")
    assert data.stat().st_size == length


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / layout.DATA_FILE).write_bytes(b"not a database" * 1000)
    with pytest.raises(StorageUnreadable, match="LMDB cannot open it"):
        LmdbCommitLog.open(tmp_path, LIMITS, lambda: "new")


def test_an_environment_that_died_before_its_first_commit_is_made_new(tmp_path: Path) -> None:
    lmdb.open(str(tmp_path), map_size=64 << 20, max_dbs=16).close()
    log = LmdbCommitLog.open(tmp_path, LIMITS, lambda: "new")
    assert log.load().head.history == "new"
    log.close()
