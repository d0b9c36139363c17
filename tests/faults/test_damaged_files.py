"""Flipped bits and torn pages anywhere in a world's file: a server tells of it or is not harmed; no answer is wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import lmdb
import pytest

from env_server.model.limits import Limits
from env_server.offline.upgrade import upgrade
from env_server.storage import layout
from env_server.storage.errors import DataLoss
from env_server.storage.lmdb_log import LmdbCommitLog
from tests.faults.damaging_child import read_world
from tests.services import ROOT
from tests.stored_worlds import unpack_world

DAMAGES, DAMAGES_LONG = 150, 5000


def damage_everywhere(directory: Path, count: int, seed: int) -> Counter[str]:
    """What came of each damage; `ended` counts processes that died of it, as any reader of a mapped file may."""
    world = unpack_world(1, "whole", directory)
    upgrade(world)
    (world / "told").write_text(read_world(world))
    assert len(json.loads((world / "told").read_text())["events"]) > 100
    (world / "whole").write_bytes((world / layout.DATA_FILE).read_bytes())
    came: Counter[str] = Counter()
    while came.total() < count:
        first = came.total()
        command = [sys.executable, "-m", "tests.faults.damaging_child", *map(str, (world, seed, first, count))]
        child = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1000)
        came.update(line.split()[1] for line in child.stdout.splitlines())
        if child.returncode:
            assert child.returncode < 0, child.stderr[-3000:]
            came["ended"] += 1
    return came


def check_damages(directory: Path, count: int, seed: int) -> None:
    came = damage_everywhere(directory, count, seed)
    assert set(came) <= {"told", "harmless", "ended"}, came
    assert came["told"] > count / 10, "most of the file is not read: this shows nothing"
    assert came["ended"] < count / 10


def test_no_damage_is_taken_for_data(tmp_path: Path, seed: int) -> None:
    check_damages(tmp_path, DAMAGES, seed)


def test_a_deletion_that_names_a_living_environment_is_damage(tmp_path: Path) -> None:
    """The keys of that table carry no checksum: taken at its word, one flipped bit would throw entries away."""
    world = unpack_world(1, "whole", tmp_path)
    upgrade(world)
    with lmdb.open(str(world), max_dbs=32, subdir=True) as environment:
        table = environment.open_db(layout.DROPPED.encode())
        with environment.begin(write=True) as transaction:
            transaction.put(layout.number_key(1), b"", db=table)
    with pytest.raises(DataLoss, match="environment 1 lives"):
        read_world(world)


def test_no_bit_of_the_first_records_header_moves_what_is_retained(tmp_path: Path) -> None:
    """Where the state holds all of the log, a start reads nothing of it but this."""
    world = unpack_world(1, "whole", tmp_path)
    upgrade(world)
    with lmdb.open(str(world), max_dbs=32, subdir=True) as environment, environment.begin() as transaction:
        cursor = transaction.cursor(environment.open_db(layout.LOG.encode(), transaction))
        assert cursor.first()
        value = cursor.value()
    whole = (world / layout.DATA_FILE).read_bytes()
    assert whole.count(value) == 1, "its place in the file is not known"
    for place in range(layout.LOG_HEADER.size):
        content = bytearray(whole)
        content[whole.index(value) + place] ^= 1 << place % 8
        (world / layout.DATA_FILE).write_bytes(content)
        with pytest.raises(DataLoss):
            LmdbCommitLog.open(world, Limits(map_bytes=1 << 30), lambda: "new").close()


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_no_damage_of_very_many_is_taken_for_data(tmp_path: Path, seed: int) -> None:
    check_damages(tmp_path, DAMAGES_LONG, seed)
