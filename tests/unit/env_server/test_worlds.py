"""Worlds opened when somebody asks for them, and closed for others when nobody needs them."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from env_server.behaviours.behaviour import Behaviour, operation
from env_server.behaviours.context import Context
from env_server.behaviours.registry import Behaviours
from env_server.closed_worlds import NOTE_FILE
from env_server.model.entries import Entry
from env_server.model.errors import AlreadyExists, Exhausted, HistoryMismatch, NotFound, Reason, WorldError
from env_server.model.limits import MIB, Limits
from env_server.model.operations import Code, ListEntries, Query
from env_server.pipeline import World
from env_server.worlds import Worlds
from tests.engine import Op, Sent, add, get, invoke, make_frame, new_environment, put
from tests.leased import begin, grant, revoke, set_gate

LIMITS = Limits(map_bytes=16 * MIB, log_bytes_max=8 * MIB, page_idle_s=2.0)
OPEN_MAX = 4


class Waiting(Behaviour):
    """Counts how many of its operations run, in all worlds."""

    kind: ClassVar[str] = "waiting"
    running = 0
    peak = 0

    @operation(writes=lambda path: [])
    async def wait(self, ctx: Context) -> None:
        Waiting.running += 1
        Waiting.peak = max(Waiting.peak, Waiting.running)
        await ctx.sleep(0.01)
        Waiting.running -= 1


def make_worlds(directory: Path, open_max: int = OPEN_MAX, limits: Limits = LIMITS) -> Worlds:
    def fail(error: BaseException) -> None:
        raise AssertionError(f"a commit failed: {error}")

    return Worlds(directory, limits, Behaviours([Waiting()]), fail, lambda: uuid.uuid4().hex, open_max)


def execute(world: World, ops: Sequence[Op]) -> asyncio.Future[Sent]:
    sent = Sent(make_frame(ops))
    done: asyncio.Future[Sent] = asyncio.get_running_loop().create_future()

    def deliver(part: Any) -> None:
        if not done.done():  # done: the world was deleted, and what ran in it has returned later
            sent.parts.append(part)
            if sent.done:
                done.set_result(sent)

    world.execute(sent.frame, deliver)
    return done


async def do(worlds: Worlds, name: str, *ops: Op) -> Sent:
    """As a call does it: nothing between reaching the world and its op."""
    world = await worlds.reach(name)
    return await execute(world, ops)


async def read(worlds: Worlds, name: str, key: str) -> Entry:
    return (await do(worlds, name, get("/", key))).entry


async def make_many(worlds: Worlds, count: int) -> list[str]:
    names = [f"w{number:03}" for number in range(count)]
    for number, name in enumerate(names):
        await worlds.create(name, if_absent=False)
        await do(worlds, name, put("/", "number", number), new_environment("/a"), put("/a", "k", "v"))
        assert worlds.count()[0] <= OPEN_MAX
    return names


def open_names(worlds: Worlds) -> set[str]:
    return {world.name for world in worlds._opening.list()[0]}


async def use_up(worlds: Worlds, *but: str) -> None:
    """Opens other worlds until every place was needed at least twice."""
    for name in [described.name for described in await worlds.list() if described.name not in ("main", *but)]:
        await worlds.reach(name)


async def test_far_more_worlds_than_may_be_open_are_made_read_and_listed(tmp_path: Path) -> None:
    worlds = make_worlds(tmp_path)
    await worlds.start()
    names = await make_many(worlds, 20)
    for number, name in enumerate(names):
        assert (await read(worlds, name, "number")).value == number
        assert worlds.count() == (OPEN_MAX, 21)
    listed = {described.name: described for described in await worlds.list()}
    assert sorted(listed) == ["main", *names]
    assert sum(described.is_open for described in listed.values()) == OPEN_MAX
    assert {(one.revision, one.environments, one.entries) for name, one in listed.items() if name != "main"} == {
        (4, 2, 2)
    }
    with pytest.raises(AlreadyExists):
        await worlds.create(names[0], if_absent=False)
    assert (await worlds.create(names[0], if_absent=True)).history == listed[names[0]].history
    await worlds.stop()

    again = make_worlds(tmp_path)
    await again.start()
    assert open_names(again) == {"main"}, "nothing lives in the others"
    assert {one.name: (one.history, one.revision, one.entries) for one in await again.list()} == {
        one.name: (one.history, one.revision, one.entries) for one in listed.values()
    }
    for number, name in enumerate(names):
        assert (await read(again, name, "number")).value == number
    await again.stop()


@pytest.mark.parametrize("open_max", [2, 4])
async def test_a_storm_over_more_worlds_than_places_loses_nothing_and_starves_nobody(
    tmp_path: Path, open_max: int, seed: int
) -> None:
    chance, worlds = random.Random(seed), make_worlds(tmp_path, open_max)
    await worlds.start()
    names = [f"w{number}" for number in range(9)]
    for name in names:
        await worlds.create(name, if_absent=False)
    counts: Counter[str] = Counter()

    async def client() -> None:
        for _ in range(15):
            name = chance.choice(names)
            await do(worlds, name, add("/", "n", 1))
            counts[name] += 1
            assert worlds.count()[0] <= open_max

    async with asyncio.timeout(60):
        await asyncio.gather(*(client() for _ in range(12)))
    for name in names:
        if counts[name]:
            assert (await read(worlds, name, "n")).value == counts[name]
    await worlds.stop()


def find_noted(directory: Path) -> set[str]:
    """Worlds that left a note when they were closed."""
    return {path.parent.name for path in directory.glob(f"*/{NOTE_FILE}")}


def list_directories(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir() if not path.name.startswith(".")}


def use(world: World) -> Callable[[], Any]:
    world.users += 1

    def release() -> None:
        world.users -= 1

    return release


@pytest.mark.parametrize("what", ["lease", "deadline", "user", "listing"])
async def test_a_world_in_which_something_lives_is_never_closed(tmp_path: Path, what: str) -> None:
    worlds = make_worlds(tmp_path, 3)
    await worlds.start()
    await make_many_small(worlds, 6)
    alive = await worlds.reach("w000")
    release: Callable[[], Any] = lambda: None  # noqa: E731
    if what == "lease":
        lease = (await do(worlds, "w000", grant(3_600_000))).written.revision
        release = lambda: do(worlds, "w000", revoke(lease))  # noqa: E731
    elif what == "deadline":
        await do(worlds, "w000", set_gate("/", deadline_ms=3_600_000, count_target=1), begin("/"))
        release = lambda: do(worlds, "w000", put("/", "report", 1))  # noqa: E731
    elif what == "user":
        release = use(alive)
    elif what == "listing":
        await do(worlds, "w000", *(put("/", f"k{number}", number) for number in range(10)))
        release = lambda: wait_until_free(alive)  # noqa: E731
    for _ in range(3):
        if what == "listing":
            await do(worlds, "w000", Op("/", "", Code.QUERY, Query(ListEntries(page_size=2))))
        for number in range(1, 6):
            await worlds.reach(f"w{number:03}")
        assert "w000" in open_names(worlds)
        assert (await worlds.reach("w000")) is alive
    released = release()
    if released is not None:
        await released
    for number in range(1, 6):
        await worlds.reach(f"w{number:03}")
    assert "w000" not in open_names(worlds), "nothing lives in it any more"
    await worlds.stop()


async def test_a_long_listing_that_nobody_reads_on_holds_its_world_no_longer_than_its_time(tmp_path: Path) -> None:
    worlds = make_worlds(tmp_path, 2, replace(LIMITS, page_idle_s=0.5))
    await worlds.start()
    await make_many_small(worlds, 2)
    for first in range(0, 36_000, 4_000):
        await do(worlds, "w000", *(put("/", f"k{number}", number) for number in range(first, first + 4_000)))
    world = await worlds.reach("w000")
    listed = await do(worlds, "w000", Op("/", "", Code.QUERY, Query(ListEntries(page_size=2))))
    assert not isinstance(listed.outcome(), WorldError)
    with pytest.raises(Exhausted):
        await worlds.reach("w001")
    await wait_until_free(world)
    assert not world.is_at_rest, "what the listing held goes in slices"
    assert (await worlds.reach("w001")).name == "w001"
    await worlds.stop()


async def test_an_op_that_waits_for_the_disk_keeps_its_world_open_that_long(tmp_path: Path) -> None:
    worlds = make_worlds(tmp_path, 2)
    await worlds.start()
    await make_many_small(worlds, 3)
    for count in range(1, 6):
        waiting = execute(await worlds.reach("w000"), [add("/", "n", 1)])
        others = [asyncio.create_task(worlds.reach(name)) for name in ("w001", "w002")]
        assert (await waiting).written.value == count
        await asyncio.gather(*others)
    await worlds.stop()


async def wait_until_free(world: World) -> None:
    while world.must_stay:  # noqa: ASYNC110 - the time of a listing has no event
        await asyncio.sleep(0.02)


async def make_many_small(worlds: Worlds, count: int) -> None:
    for number in range(count):
        await worlds.create(f"w{number:03}", if_absent=False)


async def test_when_none_can_be_closed_the_refusal_says_when_to_come_again(tmp_path: Path) -> None:
    worlds = make_worlds(tmp_path, 3)
    await worlds.start()
    await make_many_small(worlds, 4)
    release = [use(await worlds.reach(name)) for name in ("w000", "w001")]
    for ask in (lambda: worlds.reach("w002"), lambda: worlds.create("new", False), lambda: worlds.fork("w000", "new")):
        with pytest.raises(Exhausted) as refused:
            await ask()
        assert refused.value.reason is Reason.WORLD_QUOTA
        assert refused.value.metadata == {"limit": "worlds_open_max", "max": "3"}
        assert refused.value.retry_delay_ms > 0
    assert (await worlds.reach("w001")).name == "w001", "those that are open go on"
    await worlds.delete("w003", "")
    release[0]()
    assert (await worlds.reach("w002")).name == "w002"
    await worlds.stop()


async def test_closed_worlds_are_copied_compacted_and_deleted_as_open_ones(tmp_path: Path) -> None:
    worlds = make_worlds(tmp_path)
    await worlds.start()
    names = await make_many(worlds, 10)
    closed = [name for name in names if name not in open_names(worlds)]
    taken = await worlds.snapshot(closed[0], "taken")
    assert (taken.origin.world, taken.origin.revision) == (closed[0], 4)
    assert (await worlds.fork(closed[1], "forked")).restored_from is not None
    assert (await worlds.restore("taken", "restored")).entries == 2
    assert await worlds.compact(closed[2], 0) == 2, "revisions 2 to 4 are one record"
    await use_up(worlds, closed[3])
    assert closed[3] not in open_names(worlds)
    with pytest.raises(HistoryMismatch):
        await worlds.delete(closed[3], "another")
    assert closed[3] not in open_names(worlds), "nobody had to open it"
    await worlds.delete(closed[3], "")
    assert not (tmp_path / closed[3]).exists()
    for ask in (worlds.reach(closed[3]), worlds.delete(closed[3], "")):
        with pytest.raises(NotFound):
            await ask
    await worlds.create(closed[3], if_absent=False)
    assert (await do(worlds, closed[3], get("/", "number"))).error.reason is Reason.ENTRY_NOT_FOUND
    assert worlds.count()[0] <= OPEN_MAX
    await worlds.stop()


async def test_deleting_reaching_and_closing_in_any_order_ends_well(tmp_path: Path, seed: int) -> None:
    chance, worlds = random.Random(seed), make_worlds(tmp_path, 2)
    await worlds.start()
    names = ["a", "b", "c"]
    told: Counter[str] = Counter()

    async def client() -> None:
        for _ in range(25):
            name = chance.choice(names)
            try:
                if chance.random() < 0.3:
                    await worlds.delete(name, "")
                else:
                    await worlds.create(name, if_absent=True)
                    await do(worlds, name, add("/", "n", 1))
                told["done"] += 1
            except (NotFound, AlreadyExists, Exhausted) as error:
                told[error.reason.name] += 1
            except Exception as error:
                if getattr(error, "reason", None) is not Reason.RECOVERING:
                    raise
                told["RECOVERING"] += 1

    async with asyncio.timeout(60):
        await asyncio.gather(*(client() for _ in range(6)))
    assert told["done"] > 30, told
    left = {described.name for described in await worlds.list()}
    assert list_directories(tmp_path) == left
    await worlds.stop()


async def test_concurrency_max_bounds_all_worlds_of_a_server_together(tmp_path: Path) -> None:
    limits = replace(LIMITS, concurrency_max=3)
    worlds = make_worlds(tmp_path, limits=limits)
    await worlds.start()
    await make_many_small(worlds, 3)
    names = [f"w{number:03}" for number in range(3)]
    Waiting.running = Waiting.peak = 0
    for name in names:
        await do(worlds, name, new_environment("/d", kind="waiting"))
    asked = [do(worlds, name, invoke("/d", "wait")) for _ in range(8) for name in names]
    async with asyncio.timeout(20):
        for sent in await asyncio.gather(*asked):
            assert sent.invoked is not None
    assert Waiting.peak == 3
    deleted = [asyncio.create_task(do(worlds, names[0], invoke("/d", "wait"))) for _ in range(6)]
    await asyncio.sleep(0)
    await worlds.delete(names[0], "")
    assert {sent.error.reason for sent in await asyncio.gather(*deleted)} == {Reason.WORLD_NOT_FOUND}
    Waiting.peak = 0
    async with asyncio.timeout(20):
        await asyncio.gather(*(do(worlds, name, invoke("/d", "wait")) for _ in range(8) for name in names[1:]))
    assert Waiting.peak == 3, "the world that is gone has given its slots back"
    await worlds.stop()


async def test_what_is_listed_is_durable(tmp_path: Path) -> None:
    worlds = make_worlds(tmp_path)
    await worlds.start()
    world = await worlds.reach("main")
    for number in range(20):
        writing = execute(world, [put("/", f"k{number}", 1), new_environment(f"/e{number}")])
        assert not writing.done()
        (listed,) = await worlds.list()
        assert writing.done(), "what was counted is on the disk"
        assert (listed.entries, listed.environments, listed.revision) == (
            number + 1,
            number + 2,
            world.durable_revision,
        )
    await worlds.stop()
