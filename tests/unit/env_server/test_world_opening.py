"""From the disk into memory and back: what a start opens, notes of closed worlds, damage, and what is left."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from env_server import world_opening
from env_server.closed_worlds import NOTE_FILE
from env_server.model.errors import WorldUnreadable
from env_server.model.limits import Limits
from env_server.storage.layout import DATA_FILE
from env_server.storage.lmdb_log import LmdbCommitLog
from tests.engine import add, put
from tests.leased import begin, grant, set_gate
from tests.unit.env_server.test_worlds import (
    OPEN_MAX,
    do,
    find_noted,
    make_many,
    make_worlds,
    open_names,
    read,
    use_up,
)


async def test_what_was_alive_is_open_again_after_a_restart_or_a_kill(tmp_path: Path) -> None:
    worlds = make_worlds(tmp_path)
    await worlds.start()
    await make_many(worlds, 12)
    await do(worlds, "w003", grant(3_600_000))
    await do(worlds, "w005", set_gate("/", deadline_ms=3_600_000), begin("/"))
    open_then = open_names(worlds)
    # A kill leaves the directories as they are: no note of a world that was open.
    assert find_noted(tmp_path) == {f"w{number:03}" for number in range(12)} - open_then
    await worlds.stop()
    again = make_worlds(tmp_path)
    await again.start()
    assert open_names(again) == {"main", "w003", "w005"}
    assert (await again.reach("w003")).must_stay
    assert (await again.reach("w005")).must_stay
    await again.stop()


async def test_more_directories_without_a_note_than_places_are_looked_through_at_the_start(tmp_path: Path) -> None:
    worlds = make_worlds(tmp_path)
    await worlds.start()
    names = await make_many(worlds, 10)
    await do(worlds, "w002", grant(3_600_000))
    await worlds.stop()
    for name in find_noted(tmp_path):
        (tmp_path / name / NOTE_FILE).unlink()
    again = make_worlds(tmp_path)
    await again.start()
    assert again.count() == (OPEN_MAX, 11)
    assert "w002" in open_names(again)
    assert [one.name for one in await again.list()] == ["main", *names]
    for number, name in enumerate(names):
        assert (await read(again, name, "number")).value == number
    assert "w002" in open_names(again)
    await again.stop()


async def test_a_note_that_cannot_be_read_is_as_none(tmp_path: Path) -> None:
    worlds = make_worlds(tmp_path)
    await worlds.start()
    await make_many(worlds, 2)
    await worlds.stop()
    for name, text in (("w000", b""), ("w001", b'{"name": 7}')):
        (tmp_path / name / NOTE_FILE).write_bytes(text)
    again = make_worlds(tmp_path)
    await again.start()
    assert open_names(again) == {"main", "w000", "w001"}
    assert find_noted(tmp_path) == set()
    await again.stop()


async def test_a_closed_world_that_is_damaged_is_told_and_hinders_nobody(tmp_path: Path) -> None:
    worlds = make_worlds(tmp_path)
    await worlds.start()
    await make_many(worlds, 3)
    await worlds.stop()
    data = tmp_path / "w001" / DATA_FILE
    whole = data.read_bytes()
    data.write_bytes(b"\xff" * 8192)
    again = make_worlds(tmp_path)
    await again.start()
    for _ in range(2):
        with pytest.raises(WorldUnreadable) as refused:
            await again.reach("w001")
        assert str(tmp_path) not in refused.value.message
    assert (await read(again, "w002", "number")).value == 2
    data.write_bytes(whole)
    assert (await read(again, "w001", "number")).value == 1, "it was left as it is"
    await again.stop()


async def test_a_caller_who_goes_away_while_a_world_opens_leaves_it_to_the_others(tmp_path: Path) -> None:
    worlds = make_worlds(tmp_path)
    await worlds.start()
    names = await make_many(worlds, 8)
    closed = next(name for name in names if name not in open_names(worlds))
    gone = asyncio.create_task(worlds.reach(closed))
    await asyncio.sleep(0)
    others = [asyncio.create_task(read(worlds, closed, "number")) for _ in range(3)]
    await asyncio.sleep(0)
    gone.cancel()
    assert [entry.value for entry in await asyncio.gather(*others)] == [names.index(closed)] * 3
    lone = asyncio.create_task(worlds.reach(next(name for name in names if name not in open_names(worlds))))
    await asyncio.sleep(0)
    lone.cancel()
    await use_up(worlds)
    await worlds.stop()


async def test_a_world_that_was_closed_leaves_no_memory_behind(tmp_path: Path) -> None:
    worlds = make_worlds(tmp_path, 2)
    await worlds.start()
    for name in ("a", "b"):
        await worlds.create(name, if_absent=False)
        for first in range(0, 6000, 1000):
            await do(worlds, name, *(put("/", f"k{number}", number + 0.5) for number in range(first, first + 1000)))
    await worlds.reach("a")
    gc.collect()
    gc.disable()  # as good as: the server's collector does not look at what is old
    try:
        trees = []
        for name in ("b", "a") * 3:
            world = await worlds.reach(name)
            trees.append(weakref.ref(world._tree.nodes))
            trees.append(weakref.ref(world._tree))
            del world
        await worlds.reach("b")
        await worlds.reach("a")
        before = len(gc.get_objects())
        for name in ("b", "a") * 10:
            await worlds.reach(name)
        after = len(gc.get_objects())
        print("objects left of a world", (after - before) / 20)
        assert after - before < 20 * 200, "what is left of a world is small"
        assert [tree() for tree in trees[:4]] == [None] * 4
    finally:
        gc.enable()
    await worlds.stop()


async def test_concurrent_requests_for_a_closed_world_load_it_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worlds = make_worlds(tmp_path)
    await worlds.start()
    names = await make_many(worlds, 8)
    closed = next(name for name in names if name not in open_names(worlds))
    loads: Counter[str] = Counter()
    load_world = world_opening.load_world

    def count(log: LmdbCommitLog, limits: Limits) -> Any:
        loads[log._tables.directory.name] += 1
        return load_world(log, limits)

    monkeypatch.setattr(world_opening, "load_world", count)
    sent = await asyncio.gather(*(do(worlds, closed, add("/", "n", 1)) for _ in range(200)))
    assert sorted(one.written.value for one in sent) == list(range(1, 201))
    assert loads == {closed: 1}
    await worlds.stop()
