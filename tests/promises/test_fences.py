"""Whoever has lost what it holds has no effect any more, whatever it sends: frames, blocks, transactions, operations.

An op behind a fence is tested when it has its effect: at once, or when its turn comes behind a held key, or when the
operation that it began returns. A repetition still gets its first outcome.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import ecumene
import pytest
from ecumene import FencedError, World

from env_server.model.errors import Fenced, WorldError
from env_server.model.frames import Invoked, Written
from env_server.model.operations import Code, Precondition, Transact, Write
from env_server.model.operations import Test as ConditionTest
from env_server.model.values import NOTHING, Json
from env_server.testing.hold import Hold8
from tests.engine import Op, Stand, add, drop, get, invoke, new_environment, put
from tests.leased import granted, hold
from tests.services import ServerProcess

PARTS = "/parts"


@pytest.fixture
def stand() -> Stand:
    stand = Stand(Hold8())
    stand.done(new_environment(PARTS), new_environment("/e"), new_environment("/held", kind="hold-8"))
    return stand


def take(stand: Stand, key: str = "part") -> Precondition:
    """Takes a part anew; the fence of who holds it now."""
    stand.do(drop(PARTS, key))
    stand.done(put(PARTS, key, "holder"))
    return Precondition(ConditionTest.CREATED_REVISION, stand.world.revision, PARTS, key)


def transact(fence: Precondition) -> Op:
    return Op("/", "", Code.TRANSACT, Transact((), (Write("/e", "t", Code.SET, 1),), ()), fence=fence)


def test_ops_of_every_kind_pass_while_the_fence_holds_and_none_afterwards(stand: Stand) -> None:
    fence = take(stand)
    ops = [
        put("/e", "a", 1, fence=fence),
        add("/e", "n", 1, fence=fence, producer="ann", seq=1),
        transact(fence),
        Op("/e", "j", Code.MERGE, Json(b'{"a":1}'), fence=fence),
        get("/e", "a")._replace(fence=fence),
        Op("/", "", Code.QUERY, get("/e").argument),
    ]
    assert not any(isinstance(outcome, Fenced) for outcome in stand.done(*ops))
    take(stand)
    before = stand.world.revision
    sent = stand.do(*(op._replace(seq=2) if op.producer else op for op in ops))
    assert [isinstance(sent.outcome(index), Fenced) for index in range(len(ops))] == [True] * 5 + [False]
    assert stand.world.revision == before


def test_ops_of_several_holders_in_one_frame_are_told_apart(stand: Stand) -> None:
    first, second = take(stand, "one"), take(stand, "two")
    take(stand, "one")
    sent = stand.do(put("/e", "a", 1, fence=first), put("/e", "b", 2, fence=second), put("/e", "c", 3))
    assert isinstance(sent.outcome(0), Fenced)
    assert [stand.value("/e", key) for key in "abc"] == [NOTHING, 2, 3]


def test_a_repetition_gets_its_first_outcome_also_behind_a_fence_that_fell(stand: Stand) -> None:
    fence = take(stand)
    (first,) = stand.done(add("/e", "n", 1, fence=fence, producer="ann", seq=7))
    take(stand)
    again = stand.do(add("/e", "n", 1, fence=fence, producer="ann", seq=7)).outcome()
    assert isinstance(first, Written)
    assert isinstance(again, Written)
    assert again.revision == first.revision
    assert stand.value("/e", "n") == 1


def test_an_op_of_a_holder_who_was_replaced_leaves_no_mark_for_the_one_who_holds_it_now(stand: Stand) -> None:
    """Both send the same turns; whichever comes first, the effect is that of the holder."""
    fence = take(stand)
    now = take(stand)
    late = [
        put("/e", "a", "late", fence=fence, producer="ann", seq=7),
        transact(fence)._replace(producer="bob", seq=7),
        invoke("/held", "hold", key="k", hold_ms=0)._replace(fence=fence, producer="cem", seq=7),
    ]
    sent = stand.do(*late)
    stand.clock.settle()
    assert all(isinstance(sent.outcome(index), Fenced) for index in range(3))
    again = stand.do(*(op._replace(fence=now) for op in late))
    stand.clock.settle()
    assert not any(isinstance(again.outcome(index), WorldError) for index in range(3))
    assert stand.value("/e", "a") == "late"


def test_what_waited_behind_a_held_key_is_tested_when_its_turn_comes(stand: Stand) -> None:
    fence = take(stand)
    holding = stand.send(invoke("/held", "hold", key="k", hold_ms=100))
    waiting = stand.send(put("/held", "k", "late", fence=fence))
    take(stand)
    stand.clock.advance(0.2)
    stand.clock.settle()
    assert isinstance(holding.outcome(), Invoked)
    assert isinstance(waiting.outcome(), Fenced)
    assert stand.value("/held", "k") == 1


def test_an_operation_that_returns_to_a_fallen_fence_leaves_nothing(stand: Stand) -> None:
    fence = take(stand)
    running = stand.send(invoke("/held", "hold", key="k", hold_ms=100)._replace(fence=fence))
    take(stand)
    stand.clock.advance(0.2)
    stand.clock.settle()
    assert isinstance(running.outcome(), Fenced)
    assert stand.value("/held", "k") is NOTHING


@pytest.mark.parametrize("path", [PARTS, "/gone"])
def test_a_fence_without_its_entry_or_environment_does_not_hold(stand: Stand, path: str) -> None:
    fence = Precondition(ConditionTest.CREATED_REVISION, 3, path, "part")
    assert isinstance(stand.do(put("/e", "a", 1, fence=fence)).outcome(), Fenced)


def test_a_part_whose_lease_has_ended_is_nobodys_even_before_it_is_swept_away(stand: Stand) -> None:
    lease = granted(stand, ttl_ms=5_000)
    stand.done(hold(PARTS, "leased", lease))
    fence = Precondition(ConditionTest.CREATED_REVISION, stand.world.revision, PARTS, "leased")
    stand.done(put("/e", "a", 1, fence=fence))
    stand.clock.advance(6.0)
    assert isinstance(stand.do(put("/e", "a", 2, fence=fence)).outcome(), Fenced)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("fences") / "data") as running:
        yield running


@pytest.fixture
async def world(server: ServerProcess) -> AsyncIterator[World]:
    async with ecumene.connect(server.address) as world:
        for path in ("/e", PARTS):
            await world.environment(path).register(if_absent=True)
        yield world


async def test_a_fenced_handle_stops_writing_when_the_lock_is_lost(world: World) -> None:
    async with world.lease(30) as lease:
        lock = world.lock(PARTS, "shared", lease)
        mine = world.fenced(PARTS, "shared", await lock.acquire())
        await write_all(mine, "first")
        await lock.release()
        async with world.lock(PARTS, "shared", lease) as token:
            assert await stopped_writes(mine) == 5
            await asyncio.gather(write_all(world.fenced(PARTS, "shared", token), "second"), stopped_writes(mine))
    assert await world.environment("/e").value("a") == "second"


async def write_all(world: World, value: str) -> None:
    """By every way that a handle has."""
    place = world.environment("/e")
    transaction = world.transaction().set("/e", "c", value)
    await asyncio.gather(place.set("a", value), place.append("s", value), transaction.commit())
    (await world.frames.send_block("/e", ["d", "e"], [value, value])).raise_failure()
    frame = world.frame()
    frame.set("/e", "f", value)
    (await world.frames.send(frame)).raise_failure()


async def stopped_writes(world: World) -> int:
    """How many of the ways are stopped by the fence."""
    place = world.environment("/e")
    frame = world.frame()
    frame.set("/e", "f", "x")
    results: list[Any] = await asyncio.gather(
        place.set("a", "x"),
        place.append("s", "x"),
        world.transaction().set("/e", "c", "x").commit(),
        world.frames.send_block("/e", ["d", "e"], ["x", "x"]),
        world.frames.send(frame),
        return_exceptions=True,
    )
    errors = [result.failures[0][1] if hasattr(result, "failures") else result for result in results]
    return sum(isinstance(error, FencedError) for error in errors)
