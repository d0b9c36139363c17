"""Locks of the SDK: one holder at a time, free when their lease ends, and a holder of yesterday writes nothing."""

from __future__ import annotations

import asyncio

import ecumene
import pytest
from ecumene import World

from tests.services import ServerProcess
from tests.unit.ecumene.client.conftest import QUICK
from tests.unit.ecumene.client.fake_server import became
from tests.unit.ecumene.client.test_leases import end_lease, is_absent


async def test_holders_take_turns_and_their_tokens_rise(real_server: ServerProcess, real_world: World) -> None:
    inside, tokens, total = 0, [], 0

    async def work(world: World) -> None:
        nonlocal inside, total
        async with world.lease(5) as lease:
            for _ in range(5):
                async with world.lock("/room", "lock", lease, value=world.client_id) as token:
                    inside += 1
                    assert inside == 1, "alone"
                    tokens.append(token)
                    before = total
                    await world.environment("/room").set("work", before)
                    total = before + 1
                    inside -= 1

    async with asyncio.timeout(60):
        worlds = [await ecumene.connect(real_server.address, settings=QUICK) for _ in range(4)]
        await asyncio.gather(*[work(world) for world in worlds for _ in range(2)])
        for world in worlds:
            await world.close()
    assert total == 40
    assert tokens == sorted(set(tokens))
    assert await real_world.environment("/room").value("lock") is None


async def test_a_lock_is_free_when_the_lease_of_its_holder_ends_and_the_old_token_is_worthless(
    real_server: ServerProcess, real_world: World
) -> None:
    old = await real_world.lease(5)
    lock = real_world.lock("/room", "lock", old)
    token = await lock.acquire()
    guarded = real_world.transaction().require("/room", "lock", created_revision=token).set("/room", "x", 1)
    await guarded.commit()
    async with real_world.lease(5) as new:
        waiting = asyncio.create_task(real_world.lock("/room", "lock", new).acquire(), name="waiting")
        await end_lease(real_server.address, old.id)
        async with asyncio.timeout(10):
            newer = await waiting
        assert newer > token
        with pytest.raises(ecumene.FencedError):
            await (
                real_world.transaction().require("/room", "lock", created_revision=token).set("/room", "x", 2).commit()
            )
        with pytest.raises(ecumene.FencedError):
            await lock.release()
    assert await real_world.environment("/room").value("x") == 1


async def test_a_block_whose_lock_was_lost_says_so_unless_it_failed_already(real_world: World) -> None:
    room = real_world.environment("/room")
    async with real_world.lease(5) as lease:
        with pytest.raises(ecumene.FencedError):
            async with real_world.lock("/room", "lock", lease):
                await room.delete("lock")
        with pytest.raises(ZeroDivisionError):
            async with real_world.lock("/room", "lock", lease):
                await room.delete("lock")
                raise ZeroDivisionError


async def test_who_gives_up_waiting_leaves_nothing_locked(real_world: World) -> None:
    async with real_world.lease(5) as lease:
        async with real_world.lock("/room", "lock", lease):
            with pytest.raises(ecumene.DeadlineExceededError):
                await real_world.lock("/room", "lock", lease, timeout_s=0.1).acquire()
        for _ in range(20):
            taking = asyncio.create_task(real_world.lock("/room", "lock", lease).acquire(), name="taking")
            await asyncio.sleep(0)
            taking.cancel()
            await asyncio.gather(taking, return_exceptions=True)
            await became(lambda: is_absent(real_world, "lock"))
