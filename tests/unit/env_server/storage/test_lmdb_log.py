"""LmdbCommitLog keeps the interface, and refuses to be used wrongly."""

import os
import random
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from env_server.model.changes import Changes
from env_server.model.limits import Limits
from env_server.storage.errors import StorageClosed, StorageInUse
from env_server.storage.lmdb_log import LmdbCommitLog
from env_server.storage.lmdb_tables import READERS_MAX
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
    assert len(list(again.load().entries)) == 10
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


READER = """
import lmdb, sys
env = lmdb.open(sys.argv[1], max_dbs=16, readonly=True, max_readers=int(sys.argv[2]))
kept = []
try:
    while True:
        kept.append(env.begin())
except lmdb.ReadersFullError:
    print(len(kept), flush=True)
sys.stdin.read()
"""


def fill_readers(directory: Path) -> int:
    """Read transactions in every place that is left, in a process that is then killed; how many."""
    command = [sys.executable, "-c", READER, str(directory), str(READERS_MAX)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        readers = int(child.stdout.readline())
        child.kill()
    return readers


def test_readers_that_were_killed_do_not_fill_the_table(tmp_path: Path) -> None:
    stand = LmdbStand(tmp_path)
    log = stand.open(Limits())
    stand.start(log)
    groups = [make_group([])]
    log.append(groups[0], None)
    stand.wait(1)
    assert fill_readers(tmp_path) > READERS_MAX - 5
    for _ in range(8):
        assert log.read(1, 1 << 20) == groups
    assert fill_readers(tmp_path) > READERS_MAX - 5
    (tmp_path / "copy").mkdir()
    log.copy_to(tmp_path / "copy" / "data.mdb")
    assert fill_readers(tmp_path) > READERS_MAX - 5
    groups.append(make_group(groups))
    log.append(groups[-1], None)
    log.close()
    assert stand.fatal == []
    fill_readers(tmp_path)
    again = stand.open(Limits())
    assert list(again.load().records) == groups
    again.close()


def test_closing_while_another_thread_appends_loses_nothing_that_was_taken(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    for number in range(10):
        stand = LmdbStand(tmp_path / str(number))
        log = stand.open(Limits())
        stand.start(log)
        groups: list[Changes] = []
        pause = threading.Event()

        def append(log: LmdbCommitLog = log, groups: list[Changes] = groups, pause: threading.Event = pause) -> None:
            while True:
                group = make_group(groups)
                try:
                    log.append(group, None)
                except StorageClosed:
                    return
                groups.append(group)
                pause.set()

        appender = threading.Thread(target=append, name="appender of a test")
        appender.start()
        assert pause.wait(30)
        threading.Event().wait(rng.random() / 100)
        log.close()
        appender.join()
        stand.receive_all()
        assert not stand.fatal
        again = stand.open(Limits())
        kept = list(again.load().records)
        # A group that was taken as the log closed may have come after the last commit: it was never reported durable.
        assert kept == groups[: len(kept)]
        assert len(kept) >= stand.durable[-1]
        again.close()
