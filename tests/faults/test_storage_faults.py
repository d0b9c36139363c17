"""Storage under faults: what was acknowledged is there afterwards, whole; what is damaged is never taken for data."""

import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import lmdb
import pytest

from env_server.diagnostics.failpoints import WRITER_PLACES
from env_server.model.changes import Changes
from env_server.model.limits import Limits
from env_server.storage import layout
from env_server.storage.errors import DataLoss, StorageInUse
from env_server.storage.lmdb_log import LmdbCommitLog
from tests.contracts.commit_log import make_group
from tests.faults.storage_child import FATAL_STATUS, KEYS, LIMITS, make_record
from tests.unit.env_server.storage.stands import LmdbStand

ROOT = Path(__file__).resolve().parents[2]
KILLS = 20
KILLS_LONG = 200
ACKNOWLEDGED_MIN = 20
"""A round: with less, the kill hit an idle process."""


@contextmanager
def run_child(directory: Path, *arguments: str, before: tuple[str, ...] = (), failpoint: str = "") -> Iterator[Any]:
    command = [*before, sys.executable, "-m", "tests.faults.storage_child", str(directory), *arguments]
    environment = {**os.environ, "FAILPOINT": failpoint}
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        try:
            yield child
        finally:
            child.kill()


def read_numbers(child: Any) -> list[int]:
    """What the child acknowledged and nobody has read yet, to the end of its output."""
    return [int(line) for line in child.stdout if line.strip().isdecimal() and line.endswith("\n")]


def check_world(directory: Path, acknowledged: int) -> int:
    """Opens what a dead child left, checks all of it, and returns the number of its last record."""
    log = LmdbCommitLog.open(directory, LIMITS, lambda: "a new history")
    loaded = log.load()
    last = loaded.head.record_number
    assert loaded.head.history == "history-1"
    assert last >= acknowledged
    changes: Changes | None = None
    for found in loaded.records:
        changes = make_record(changes)
        changes.size_bytes = found.size_bytes
        assert found == changes
    assert (0 if changes is None else changes.number) == last
    # A chunk is in the transaction of its record: both or neither.
    written = {key: entry.value for _, key, entry in loaded.entries}
    assert written == {f"key-{number % KEYS}": number for number in range(max(1, last - KEYS + 1), last + 1)}
    log.close()
    return last


def kill_at_random(directory: Path, rounds: int, seed: int) -> None:
    rng = random.Random(seed)
    last = 0
    for _ in range(rounds):
        wanted = last + ACKNOWLEDGED_MIN + rng.randrange(50)
        acknowledged = 0
        with run_child(directory) as child:
            for line in child.stdout:
                if line.strip().isdecimal() and (acknowledged := int(line)) >= wanted:
                    break
            child.kill()
            acknowledged = max([acknowledged, *read_numbers(child)])
        assert acknowledged >= wanted
        last = check_world(directory, acknowledged)


def test_kills_at_random_moments_lose_nothing(tmp_path: Path, seed: int) -> None:
    kill_at_random(tmp_path, KILLS, seed)


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_many_kills_at_random_moments_lose_nothing(tmp_path: Path, seed: int) -> None:
    kill_at_random(tmp_path, KILLS_LONG, seed)


@pytest.mark.parametrize("place", sorted(WRITER_PLACES))
def test_a_kill_at_a_named_point_loses_nothing(tmp_path: Path, place: str) -> None:
    last = 0
    for times in (1, 7):
        with run_child(tmp_path, failpoint=f"{place}:kill:{times}") as child:
            acknowledged = read_numbers(child)
            assert child.wait() == -9
        assert len(acknowledged) == times - 1 + (place == "after_publish")
        last = check_world(tmp_path, max(acknowledged, default=last))


def test_an_error_at_a_named_point_is_fatal(tmp_path: Path) -> None:
    with run_child(tmp_path, failpoint="after_put:raise:3") as child:
        lines = child.stdout.read().split("\n")
        assert child.wait() == FATAL_STATUS
    assert lines[-2] == "fatal FailpointReached"
    assert check_world(tmp_path, int(lines[-3])) == int(lines[-3])


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    with run_child(tmp_path) as child:
        assert child.stdout.readline() == "started\n"
        with pytest.raises(StorageInUse, match=f"process {child.pid}") as refused:
            LmdbCommitLog.open(tmp_path, LIMITS, lambda: "other")
        assert refused.value.pid == child.pid
        child.kill()
        check_world(tmp_path, max(read_numbers(child), default=0))


def test_a_file_that_cannot_grow_is_fatal(tmp_path: Path) -> None:
    with run_child(tmp_path, str(512 << 10)) as child:
        lines = child.stdout.read().split("\n")
        assert child.wait() == FATAL_STATUS
    assert lines[-2].startswith("fatal ")  # EFBIG here; LMDB has a name only for ENOSPC
    check_world(tmp_path, int(lines[-3]))


def test_a_failed_fdatasync_is_fatal(tmp_path: Path, missing_toolchain: Callable[[str], NoReturn]) -> None:
    if not shutil.which("strace"):
        missing_toolchain("strace, to let fdatasync fail")
    inject = ("strace", "-f", "-o", os.devnull, "-e", "trace=fdatasync", "-e", "inject=fdatasync:error=EIO:when=12")
    with run_child(tmp_path, before=inject) as child:
        lines = child.stdout.read().split("\n")
        assert child.wait() == FATAL_STATUS
    assert lines[-2].startswith("fatal ")
    check_world(tmp_path, int(lines[-3]))


def test_every_acknowledgement_follows_a_sync_of_its_own(
    tmp_path: Path, missing_toolchain: Callable[[str], NoReturn]
) -> None:
    """A kill cannot show this: what was written without a sync survives it in the system's cache."""
    if not shutil.which("strace"):
        missing_toolchain("strace, to see fdatasync")
    trace = tmp_path / "trace"
    watch = ("strace", "-f", "-o", str(trace), "-e", "trace=fdatasync,write")
    with run_child(tmp_path / "world", before=watch, failpoint="after_publish:kill:10") as child:
        acknowledged = read_numbers(child)
        child.wait()
    synced = False
    seen = []
    for line in trace.read_text().splitlines():
        synced = synced or ("fdatasync" in line and line.endswith("= 0"))
        if found := re.search(r'write\(1, "(\d+)\\n"', line):
            assert synced, f"record {found[1]} was acknowledged without a sync"
            seen.append(int(found[1]))
            synced = False
    assert len(seen) == 10
    assert seen == acknowledged


def flip_in_record(stand: LmdbStand, seed: int, number: int) -> bytes:
    """A log of two records, one of them with a bit flipped; returns the file's content."""
    log = stand.open(Limits(map_bytes=64 << 20))
    stand.start(log)
    groups = [make_group([])]
    groups.append(make_group(groups))
    needle = b"needle in record %d "
    for place, group in enumerate(groups, 1):
        group.values = [needle % place * 500]
        log.append(group, None)
    log.close()
    data = stand.directory / layout.DATA_FILE
    content = bytearray(data.read_bytes())
    position = content.find(needle % number) + random.Random(seed).randrange(len(needle % number) * 500)
    content[position] ^= 4
    data.write_bytes(content)
    return content


def test_a_flipped_byte_in_a_record_is_found(tmp_path: Path, seed: int) -> None:
    stand = LmdbStand(tmp_path)
    content = flip_in_record(stand, seed, 2)
    log = stand.open(Limits(map_bytes=64 << 20))
    with pytest.raises(DataLoss, match=f"{tmp_path}.*checksum of log record 2.*ecumene offline verify"):
        list(log.load().records)
    with pytest.raises(DataLoss):
        log.read(1, 1 << 20)
    log.close()
    assert (tmp_path / layout.DATA_FILE).read_bytes() == content


def test_a_flipped_byte_in_the_first_record_is_found_at_once(tmp_path: Path, seed: int) -> None:
    """What is retained begins with it."""
    stand = LmdbStand(tmp_path)
    content = flip_in_record(stand, seed, 1)
    with pytest.raises(DataLoss, match=f"{tmp_path}.*checksum of log record 1.*ecumene offline verify"):
        stand.open(Limits(map_bytes=64 << 20))
    assert (tmp_path / layout.DATA_FILE).read_bytes() == content


def test_a_full_map_is_fatal_once_and_nothing_later_is_durable(tmp_path: Path) -> None:
    stand = LmdbStand(tmp_path)
    log = stand.open(Limits(map_bytes=1 << 20))
    stand.start(log)
    groups = [make_group([])]
    log.append(groups[0], None)
    stand.wait(1)
    for size in (2 << 20, 1, 1):
        groups.append(make_group(groups))
        groups[-1].values = [b"x" * size]
        log.append(groups[-1], None)
    log.close()
    stand.receive_all()
    assert [type(error) for error in stand.fatal] == [lmdb.MapFullError]
    assert stand.durable == [1]
    again = stand.open(Limits(map_bytes=1 << 20))
    assert list(again.load().records) == groups[:1]
    again.close()


class FailingTransaction:
    """A transaction whose commit fails as on a broken disk; everything else is real."""

    def __init__(self, transaction: Any) -> None:
        self._transaction = transaction

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transaction, name)

    def commit(self) -> None:
        raise OSError(5, "Input/output error")


class FailingEnvironment:
    """LMDB's environment; the second write transaction from now on fails, the others would succeed."""

    def __init__(self, env: Any) -> None:
        self._env = env
        self._writes = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, name)

    def begin(self, write: bool = False, **options: Any) -> Any:
        transaction = self._env.begin(write=write, **options)
        self._writes += write
        return FailingTransaction(transaction) if write and self._writes == 2 else transaction

    def close(self) -> None:
        self._env.close()


def test_a_failed_commit_is_fatal_once_although_the_next_would_succeed(tmp_path: Path) -> None:
    stand = LmdbStand(tmp_path)
    log = stand.open(LIMITS)
    log._tables.env = FailingEnvironment(log._tables.env)
    stand.start(log)
    groups: list[Changes] = []
    for number in (1, 2):
        groups.append(make_group(groups))
        log.append(groups[-1], None)
        stand.receive()
        assert len(stand.durable) + len(stand.fatal) == number
    groups.append(make_group(groups))
    log.append(groups[-1], None)
    log.close()
    stand.receive_all()
    assert [str(error) for error in stand.fatal] == ["[Errno 5] Input/output error"]
    assert stand.durable == [1]
    again = stand.open(LIMITS)
    assert list(again.load().records) == groups[:1]
    again.close()
