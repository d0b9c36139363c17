"""Worlds of every earlier format: refused as they are, whole after the upgrade, never half upgraded."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import lmdb
import pytest

from env_server.model.changes import Changes
from env_server.model.limits import MIB, Limits
from env_server.offline.upgrade import upgrade
from env_server.offline.verify import verify
from env_server.storage import formats, layout
from env_server.storage.errors import DataLoss, StorageError, StorageFormat, StorageInUse, StorageUnreadable
from env_server.storage.lmdb_log import LmdbCommitLog
from tests.stored_worlds import FORMATS, told_then, unpack_world
from tests.told_world import load_world, tell_world

LIMITS = Limits(map_bytes=64 * MIB)
WORLDS = [(number, name) for number, names in FORMATS.items() for name in names]


def open_world(directory: Path) -> LmdbCommitLog:
    return LmdbCommitLog.open(directory, LIMITS, lambda: "another history")


def tell(directory: Path) -> dict[str, Any]:
    log = open_world(directory)
    try:
        told: dict[str, Any] = json.loads(json.dumps(tell_world(log)))
        return told | {"history": load_world(log).history}
    finally:
        log.close()


def digest(directory: Path) -> str:
    return hashlib.sha256((directory / layout.DATA_FILE).read_bytes()).hexdigest()


def test_every_earlier_format_is_among_the_fixtures() -> None:
    assert set(FORMATS) == set(range(formats.OLDEST, layout.FORMAT_VERSION))
    assert set(formats.TABLES_OF) == set(range(formats.OLDEST, layout.FORMAT_VERSION + 1))


@pytest.mark.parametrize(("number", "name"), WORLDS)
def test_an_earlier_format_is_refused_with_the_command_to_run(tmp_path: Path, number: int, name: str) -> None:
    world = unpack_world(number, name, tmp_path)
    before = digest(world)
    with pytest.raises(StorageFormat) as refused:
        open_world(world)
    assert f"run `ecumene offline upgrade {world}`" in str(refused.value)
    assert "\n" not in str(refused.value)
    assert digest(world) == before


@pytest.mark.parametrize(("number", "name"), WORLDS)
def test_everything_is_there_after_the_upgrade(tmp_path: Path, number: int, name: str) -> None:
    world = unpack_world(number, name, tmp_path)
    assert verify(world).is_whole
    assert upgrade(world) == number
    told = told_then(number, name)
    assert len(told["environments"]) > 5
    assert tell(world) == told
    report = verify(world)
    assert report.is_whole, report.problems.told
    assert report.storage_format == layout.FORMAT_VERSION
    assert upgrade(world) == layout.FORMAT_VERSION, "once more changes nothing"
    assert tell(world) == told


@pytest.mark.parametrize(("number", "name"), WORLDS)
def test_an_upgraded_world_goes_on(tmp_path: Path, number: int, name: str) -> None:
    world = unpack_world(number, name, tmp_path)
    upgrade(world)
    log = open_world(world)
    head = log.load().head
    durable: list[int] = []
    log.start(call=lambda call, told: call(told), on_durable=durable.append, on_fatal=lambda error: None)
    log.append(Changes(head.record_number + 1, head.revision, head.revision), None)
    log.close()
    assert durable == [head.record_number + 1]
    assert tell(world)["environments"] == told_then(number, name)["environments"]


def test_a_newer_format_and_one_that_never_was_are_refused(tmp_path: Path) -> None:
    world = unpack_world(1, "whole", tmp_path)
    for digits in (str(layout.FORMAT_VERSION + 1).encode(), b"0", b"", b"x"):
        with lmdb.open(str(world), map_size=64 * MIB, max_dbs=16) as env:
            meta = env.open_db(layout.META.encode())
            with env.begin(write=True) as transaction:
                transaction.put(layout.META_FORMAT, digits, db=meta)
        before = digest(world)
        with pytest.raises((StorageFormat, StorageUnreadable)):
            upgrade(world)
        assert digest(world) == before


def test_an_upgrade_that_fails_in_the_middle_leaves_the_old_format(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = unpack_world(1, "whole", tmp_path)

    def fail_after(env: Any, transaction: Any) -> None:
        formats._from_1(env, transaction)
        raise lmdb.DiskError("No space left on device")

    monkeypatch.setitem(formats._STEPS, 1, fail_after)
    with pytest.raises(StorageError, match="cannot be written"):
        upgrade(world)
    report = verify(world)
    assert (report.storage_format, report.is_whole) == (1, True)
    monkeypatch.undo()
    assert upgrade(world) == 1
    assert tell(world) == told_then(1, "whole")


def test_a_damaged_row_stops_an_upgrade_which_changes_nothing(tmp_path: Path) -> None:
    """Sealed again it would count as whole."""
    world = unpack_world(2, "whole", tmp_path)
    with lmdb.open(str(world), map_size=64 * MIB, max_dbs=16) as env:
        entries = env.open_db(layout.ENTRIES.encode())
        with env.begin(write=True) as transaction:
            cursor = transaction.cursor(entries)
            assert cursor.last()
            key, row = cursor.item()
            transaction.put(key, row[:-1] + bytes([row[-1] ^ 1]), db=entries)
    before = digest(world)
    with pytest.raises(DataLoss, match="in table entries does not match"):
        upgrade(world)
    assert digest(world) == before
    report = verify(world)
    assert (report.storage_format, report.is_whole) == (2, False)


def test_a_world_in_use_and_a_directory_without_one_are_refused(tmp_path: Path) -> None:
    world = unpack_world(1, "whole", tmp_path)
    upgrade(world)
    log = open_world(world)
    with pytest.raises(StorageInUse):
        upgrade(world)
    log.close()
    (tmp_path / "empty").mkdir()
    with pytest.raises(StorageUnreadable, match=r"there is no data\.mdb"):
        upgrade(tmp_path / "empty")
    assert not (tmp_path / "empty" / layout.DATA_FILE).exists()
