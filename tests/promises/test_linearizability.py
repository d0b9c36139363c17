"""What many clients were answered while the server was killed has one order: by revision, and by search alone.

P2, P4, P5, P8 and P9 over a real network and disk. The doctored histories at the end prove that both judges notice.
"""

from __future__ import annotations

import asyncio
import copy
import itertools
import random
from pathlib import Path

import grpc
import pytest
from env_api.v1 import operations_pb2 as operations
from env_api.v1 import queries_pb2

from tests.event_rows import Row, read_log
from tests.promises.histories import OPTIONS, PATH, Call, History, SessionClient, Told, run_unary
from tests.promises.history_checks import HistoryError, check_by_revision, check_by_search
from tests.raw_client import call
from tests.services import ServerProcess

SESSIONS = 5
CALLERS = 5
KEYS = 3
CALLS_A_KEY_MAX = 1500
CALLS_A_LIFE = 600


async def record(directory: Path, kills: int, chance: random.Random) -> tuple[list[Call], list[Row]]:
    """A history over so many kills, each at a random moment under load, and the event log at its end."""
    history = History()
    server = ServerProcess(directory)
    with server:
        async with grpc.aio.insecure_channel(server.address, options=OPTIONS) as channel:
            await call(channel, "register", path=PATH, register=operations.Register())
        stopped = asyncio.Event()
        clients = [
            SessionClient(f"session{number}", server, history, KEYS, random.Random(chance.random())).run(stopped)
            for number in range(SESSIONS)
        ]
        clients += [
            run_unary(f"caller{number}", server, history, KEYS, random.Random(chance.random()), stopped)
            for number in range(CALLERS)
        ]
        tasks = [asyncio.create_task(client, name=f"client {number}") for number, client in enumerate(clients)]
        try:
            for life in range(kills + 1):
                await load(history, history.known + CALLS_A_LIFE, tasks)
                if life < kills:
                    await asyncio.sleep(chance.uniform(0, 0.05))  # the moment of the fault
                    server.kill()
                    await asyncio.to_thread(server.start)
            stopped.set()
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        async with grpc.aio.insecure_channel(server.address, options=OPTIONS) as channel:
            get = queries_pb2.Query(get=queries_pb2.Get())
            revision = (await call(channel, "query", path=PATH, query=get)).header.revision
            log = await read_log(channel, "judge", revision)
        assert server.stop() == 0
    return history.calls, [row for row in log if row.key]


async def load(history: History, known: int, tasks: list[asyncio.Task[None]]) -> None:
    """Until so many calls are answered; fails when that takes too long."""
    async with asyncio.timeout(60):
        while history.known < known:
            await asyncio.sleep(0.002)
            for task in tasks:
                if task.done():
                    task.result()


def check(calls: list[Call], log: list[Row], kills: int) -> None:
    """Both judges; and that the history shows something."""
    assert len(calls) > CALLS_A_LIFE * (kills + 1)
    by_time = sorted(calls, key=lambda one: one.invoked_ns)
    overlapping = sum(later.invoked_ns < (one.returned_ns or 1 << 62) for one, later in itertools.pairwise(by_time))
    assert overlapping > len(calls) / 4, "calls one after the other show nothing"
    check_by_revision(calls, log)
    for key in {one.key for one in calls}:
        mine = [one for one in by_time if one.key == key]
        assert len(mine) > 20
        assert len(mine) < CALLS_A_KEY_MAX, "the search would take too long"
        check_by_search(mine, log)


async def test_concurrent_calls_over_kills_have_one_order(tmp_path: Path, seed: int) -> None:
    calls, log = await record(tmp_path / "data", 2, random.Random(seed))
    check(calls, log, 2)
    assert any(one.returned_ns is None for one in calls), "no kill met a call"


@pytest.mark.long
@pytest.mark.timeout(1200)
async def test_many_histories_have_one_order(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    unknown = 0
    for number in range(25):
        calls, log = await record(tmp_path / f"data{number}", 5, chance)
        check(calls, log, 5)
        unknown += sum(one.returned_ns is None for one in calls)
    assert unknown > 100


# ---- the test of the test: each of these must be noticed by both judges ----


def reads_after(calls: list[Call], chance: random.Random) -> tuple[Call, Call, Call]:
    """A write, the next one of its key, and a read that was asked for after both were answered; no deletion near."""
    found = []
    for read in calls:
        if read.verb == "read" and not read.told.reason and read.returned_ns is not None:
            mine = [one for one in calls if one.key == read.key and one.verb != "read" and not one.told.reason]
            writes = [one for one in mine if (one.returned_ns or 1 << 62) < read.invoked_ns and one.verb != "delete"]
            if len(writes) > 10:
                old, new = sorted(writes, key=lambda one: one.revision)[-5:-3]
                deletions = [one for one in mine if one.verb == "delete"]
                if not any(
                    (one.returned_ns or 1 << 62) > old.invoked_ns and one.invoked_ns < read.returned_ns
                    for one in deletions
                ):
                    found.append((old, new, read))
    return chance.choice(found)


def read_what_was(calls: list[Call], log: list[Row], chance: random.Random) -> None:
    """A stale read: what stood there before an answered write."""
    old, _, read = reads_after(calls, chance)
    read.told = Told("", old.argument if old.verb == "set" else old.told.value, old.told.version)


def read_what_was_at_its_time(calls: list[Call], log: list[Row], chance: random.Random) -> None:
    """The same, told with the revision of that time."""
    old, _, read = reads_after(calls, chance)
    read.told = Told("", old.argument if old.verb == "set" else old.told.value, old.told.version)
    read.revision = old.revision


def read_what_will_be(calls: list[Call], log: list[Row], chance: random.Random) -> None:
    """A read sees a write that was asked for after it was answered."""
    reads = [one for one in calls if one.verb == "read" and one.returned_ns is not None]
    read = chance.choice(reads[: len(reads) // 2])
    later = [
        one
        for one in calls
        if one.key == read.key
        and one.verb in ("set", "add")
        and one.returned_ns is not None
        and not one.told.reason
        and one.invoked_ns > (read.returned_ns or 0)
    ]
    write = later[-1]
    read.told = Told("", write.argument if write.verb == "set" else write.told.value, write.told.version)


def read_what_nobody_wrote(calls: list[Call], log: list[Row], chance: random.Random) -> None:
    read = chance.choice([one for one in calls if one.verb == "read" and one.told.version])
    read.told = read.told._replace(value=-1)


def lose_an_update(calls: list[Call], log: list[Row], chance: random.Random) -> None:
    """Two writers are told the same version: one of them has overwritten the other unseen."""
    old, new, _ = reads_after(calls, chance)
    new.told = new.told._replace(version=old.told.version)


def count_twice(calls: list[Call], log: list[Row], chance: random.Random) -> None:
    """A sum holds an amount twice."""
    add = chance.choice([one for one in calls if one.verb == "add" and one.told.value and one.returned_ns])
    add.told = add.told._replace(value=(add.told.value or 0) + add.argument)


def forget_a_write(calls: list[Call], log: list[Row], chance: random.Random) -> None:
    """After a time, everybody sees a key as if an answered write of it had never been; so does the log."""
    _, new, read = reads_after(calls, chance)
    read.told = Told("ENTRY_NOT_FOUND")
    log[:] = [row for row in log if row.key != new.key or row.revision < new.revision]


def fail_what_was_done(calls: list[Call], log: list[Row], chance: random.Random) -> None:
    """A write that others have seen is answered as a failure."""
    _, new, _ = reads_after([one for one in calls if one.key[0] == "r"], chance)
    new.told, new.expected_version = Told("PRECONDITION_FAILED"), 1_000_000


PLANTS = [
    read_what_was,
    read_what_was_at_its_time,
    read_what_will_be,
    read_what_nobody_wrote,
    lose_an_update,
    count_twice,
    forget_a_write,
    fail_what_was_done,
]


async def test_a_doctored_history_is_noticed_by_both_judges(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    calls, log = await record(tmp_path / "data", 0, chance)
    check_by_revision(calls, log)
    check_by_search(calls, log)
    for plant in PLANTS:
        told, seen = copy.deepcopy(calls), list(log)
        plant(told, seen, chance)
        assert told != calls
        for judge in (
            lambda told=told, seen=seen: check_by_revision(told, seen),
            lambda told=told, seen=seen: check_by_search(told, seen),
        ):
            with pytest.raises(HistoryError):
                judge()
                pytest.fail(f"{plant.__name__} was not noticed")


def test_the_judges_take_what_is_right() -> None:
    """Two writes at once and a read that overlaps them: every order of them is one, and what was cut off may be."""
    for first, second in ((1, 2), (2, 1)):
        calls = [
            Call("op-1", "a", "r0", "set", 1, 0, 10, 50, Told("", None, 1 if first == 1 else 2), first),
            Call("op-2", "b", "r0", "set", 2, 0, 20, 60, Told("", None, 1 if second == 1 else 2), second),
            Call("op-3", "c", "r0", "read", 0, 0, 30, 70, Told("", 1, 1) if first == 1 else Told("", 1, 2), first),
            Call("op-4", "d", "r0", "set", 4, 0, 40, None),
        ]
        names = sorted([(first, "op-1", 1), (second, "op-2", 2)])
        log = [
            Row(revision, 4, PATH, "r0", ("int_value", value), version, actor=name)
            for version, (revision, name, value) in enumerate(names, 1)
        ]
        check_by_revision(calls, log)
        for tried_first in ((), log, log[::-1]):
            check_by_search(calls, tried_first)


def test_an_order_is_found_among_many_calls_that_were_cut_off(seed: int) -> None:
    """Any of them may have been counted, and many sums are alike: trying all of them would take for ever."""
    chance = random.Random(seed)
    calls: list[Call] = []
    log: list[Row] = []
    total = version = 0
    for number in range(300):
        amount, is_cut, counts = chance.randint(1, 9), number % 5 == 0, number % 10 != 0
        if counts:
            total, version = total + amount, version + 1
            log.append(Row(version, 4, PATH, "c0", ("int_value", total), version, actor=f"op-{number}"))
        told = Told() if is_cut else Told("", total, version)
        end = None if is_cut else 10 * number + 25
        calls.append(Call(f"op-{number}", "a", "c0", "add", amount, 0, 10 * number - 25, end, told, version))
    check_by_search(calls, log)
