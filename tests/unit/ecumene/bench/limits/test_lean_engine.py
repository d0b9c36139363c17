"""The limit is honest only if it does its work: versions, duplicates, gates, an exact sum, durable records."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import AsyncIterator
from pathlib import Path

import lmdb
import pytest
from ecumene.bench.limits.lean_engine import LeanEngine, LeanLog, add_exactly
from ecumene.bench.wire import encode_frame, read_done
from env_api.v1 import session_pb2


def make_frame(
    seq: int, keys: list[str], producers: list[str] | None = None, generation: int = 0
) -> session_pb2.OpFrame:
    values = [float(index) for index in range(len(keys))]
    return session_pb2.OpFrame.FromString(encode_frame(seq, "/a", keys, values, producers, seq, generation))


def test_sums_are_exact() -> None:
    chance = random.Random(5)
    values = [chance.uniform(-1, 1) * 10.0 ** chance.randrange(-12, 12) for _ in range(2_000)]
    partials: list[float] = []
    for value in values:
        add_exactly(partials, value)
    assert math.fsum(partials) == math.fsum(values)


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[LeanLog]:
    opened = LeanLog(tmp_path / "log", asyncio.get_running_loop())
    yield opened
    opened.close()


async def test_a_frame_counts_versions_and_is_durable_before_its_answer(log: LeanLog) -> None:
    engine = LeanEngine(log)
    for seq in (1, 2):
        answer, durable = engine.execute(make_frame(seq, ["x", "y", "x"]))
        await durable
        assert read_done(answer.SerializeToString()) == (seq, 3)
    assert engine.revision == 6
    assert engine.put("/a", "x", 1.0)[:2] == (7, 5)


async def test_a_repeated_producer_has_no_second_effect(log: LeanLog) -> None:
    engine = LeanEngine(log)
    engine.execute(make_frame(1, ["x", "y"], ["p", "q"]))
    answer, durable = engine.execute(make_frame(1, ["x", "y"], ["p", "r"]))
    await durable
    assert read_done(answer.SerializeToString()) == (1, 1)
    assert engine.revision == 3


async def test_a_gate_that_opened_refuses_late_reports(log: LeanLog) -> None:
    engine = LeanEngine(log, gate_count=2)
    engine.execute(make_frame(1, ["x", "y"], generation=1))
    answer, durable = engine.execute(make_frame(2, ["z"], generation=1))
    await durable
    assert list(answer.without_revision) == [0]


async def test_records_are_on_the_disk(tmp_path: Path, log: LeanLog) -> None:
    engine = LeanEngine(log)
    _, durable = engine.execute(make_frame(1, ["x"]))
    await durable
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "data.mdb").write_bytes((tmp_path / "log" / "data.mdb").read_bytes())
    with lmdb.open(str(copy), max_dbs=2) as env, env.begin() as transaction:
        assert transaction.stat(env.open_db(b"log", txn=transaction, create=False))["entries"] == 1
