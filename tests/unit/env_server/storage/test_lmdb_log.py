"""LmdbCommitLog keeps the interface, and refuses to be used wrongly."""

import os
from pathlib import Path

import pytest

from env_server.model.limits import Limits
from env_server.storage.errors import StorageClosed, StorageInUse
from tests.contracts.commit_log import check_commit_log, make_chunk, make_group
from tests.unit.env_server.storage.stands import LmdbStand


def test_keeps_the_interface(tmp_path: Path, seed: int) -> None:
    check_commit_log(LmdbStand(tmp_path / "world"), seed)


def test_a_second_open_is_refused_in_the_same_process(tmp_path: Path) -> None:
    stand = LmdbStand(tmp_path)
    log = stand.open(Limits())
    with pytest.raises(StorageInUse) as refused:
        stand.open(Limits())
    assert refused.value.pid == os.getpid()
    log.close()
    stand.open(Limits()).close()


def test_appending_needs_a_started_and_open_log(tmp_path: Path) -> None:
    stand = LmdbStand(tmp_path)
    log = stand.open(Limits())
    with pytest.raises(StorageClosed):
        log.append(make_group([]), None)
    stand.start(log)
    log.close()
    log.close()
    with pytest.raises(StorageClosed):
        log.append(make_group([]), None)
    with pytest.raises(StorageClosed):
        log.read(1, 1)


def test_closing_with_a_half_read_stream_does_no_harm(tmp_path: Path) -> None:
    stand = LmdbStand(tmp_path)
    log = stand.open(Limits())
    stand.start(log)
    log.append(make_group([]), make_chunk(None))
    stand.wait(1)
    loaded = log.load()
    assert next(iter(loaded.entries))
    assert next(loaded.items)  # type: ignore[call-overload]
    log.close()
    del loaded
    again = stand.open(Limits())
    assert len(list(again.load().entries)) == 6
    again.close()


def test_usage_follows_what_is_stored(tmp_path: Path) -> None:
    stand = LmdbStand(tmp_path)
    log = stand.open(Limits())
    stand.start(log)
    before = log.storage_bytes()
    group = make_group([])
    group.values = [b"x" * 1_000_000]
    log.append(group, None)
    stand.wait(1)
    assert 1_000_000 <= log.storage_bytes() - before <= 1_100_000
    log.close()
