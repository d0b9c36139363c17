"""Leases of the SDK: kept while they are wanted, over restarts and pauses; a lost one is told; members come and go."""

from __future__ import annotations

import asyncio
from typing import Any

import ecumene
import pytest
from ecumene import EventType, Gate, World
from env_api.v1 import lease_service_pb2, lease_service_pb2_grpc

from tests.services import ServerProcess
from tests.unit.ecumene.client.conftest import QUICK
from tests.unit.ecumene.client.fake_server import became, reached

TTL_S = 1.0


async def end_lease(address: str, lease_id: int) -> None:
    """Take a lease away, as an operator would."""
    async with ecumene.connect(address, settings=QUICK) as other:
        stub: Any = lease_service_pb2_grpc.LeaseServiceStub(other.session.calls.channel)
        await stub.RevokeLease(lease_service_pb2.RevokeLeaseRequest(lease_id=lease_id))


async def is_absent(world: World, key: str) -> bool:
    """Whether an entry of /room is gone."""
    return await world.environment("/room").value(key, "gone") == "gone"


async def has_leases(world: World) -> bool:
    """Whether any lease lives."""
    return bool(await world.leases())


async def test_a_lease_lives_as_long_as_its_block_and_its_entries_go_with_it(real_world: World) -> None:
    room = real_world.environment("/room")
    async with real_world.lease(TTL_S, holder="tester") as lease:
        await room.create("under", 1, lease_id=lease.id)
        await room.create("beside", 1)
        assert [info.holder for info in await real_world.leases()] == ["tester"]
        await asyncio.sleep(2.5 * TTL_S)
        assert lease.is_certain
        assert (await room.get("under")).lease_id == lease.id
        assert [info.entry_count for info in await real_world.leases()] == [1]
    assert await real_world.leases() == []
    await became(lambda: is_absent(real_world, "under"))
    assert await room.value("beside") == 1
    assert lease.is_ended
    assert not lease.is_certain


async def test_a_lease_that_was_lost_ends_its_block_and_says_so(real_server: ServerProcess, real_world: World) -> None:
    told: list[ecumene.EcumeneError] = []
    reached_the_end = False
    with pytest.raises(ecumene.LeaseExpiredError):
        async with real_world.lease(TTL_S, on_lost=told.append) as lease:
            await end_lease(real_server.address, lease.id)
            await asyncio.sleep(30)
            reached_the_end = True
    assert not reached_the_end
    assert [type(error) for error in told] == [ecumene.LeaseExpiredError]
    assert lease.is_ended
    task = asyncio.current_task()
    assert task is not None
    assert not task.cancelling(), "the block was cancelled, not the program around it"


async def test_without_a_block_the_lost_lease_is_told_to_the_callback(
    real_server: ServerProcess, real_world: World
) -> None:
    lost = asyncio.Event()
    lease = await real_world.lease(TTL_S, on_lost=lambda _: lost.set())
    await end_lease(real_server.address, lease.id)
    async with asyncio.timeout(5):
        await lost.wait()
    assert lease.is_ended
    with pytest.raises(ecumene.EcumeneError):
        await lease.join("/room", ["ann"])
    await lease.revoke()


async def test_errors_and_cancellations_of_the_block_pass_and_give_the_lease_back(real_world: World) -> None:
    with pytest.raises(ZeroDivisionError):
        async with real_world.lease(TTL_S):
            raise ZeroDivisionError
    assert await real_world.leases() == []

    async def hold() -> None:
        async with real_world.lease(TTL_S):
            await asyncio.sleep(30)

    task = asyncio.create_task(hold(), name="hold")
    await became(lambda: has_leases(real_world))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await real_world.leases() == []


async def test_a_lease_outlives_a_kill_and_a_pause_of_the_server(real_server: ServerProcess, real_world: World) -> None:
    async with real_world.lease(TTL_S) as lease:
        await real_world.environment("/room").create("under", 1, lease_id=lease.id)
        real_server.kill()
        await asyncio.sleep(1.5 * TTL_S)
        assert not lease.is_certain, "nobody can say while nobody answers"
        await asyncio.to_thread(real_server.start)
        await reached(lambda: lease.is_certain)
        real_server.pause()
        await asyncio.sleep(3 * TTL_S)
        real_server.resume()
        await reached(lambda: lease.is_certain, 10)
        await asyncio.sleep(TTL_S)
        assert lease.is_certain
        assert await real_world.environment("/room").value("under") == 1


async def test_a_session_that_ends_says_that_its_leases_are_kept_no_more(real_server: ServerProcess) -> None:
    told: list[ecumene.EcumeneError] = []
    async with ecumene.connect(real_server.address, settings=QUICK) as world:
        lease = await world.lease(TTL_S, on_lost=told.append)
    assert [type(error) for error in told] == [ecumene.ClosedError]
    assert lease.is_ended


async def test_members_join_and_leave_in_any_number(real_world: World) -> None:
    room = real_world.environment("/room")
    watch = room.watch(types=[EventType.MEMBER_JOINED, EventType.MEMBER_LEFT, EventType.MEMBER_EXPIRED])
    async with real_world.lease(TTL_S) as lease, real_world.lease(TTL_S) as other:
        names = [f"agent-{number:05}" for number in range(2500)]
        assert await lease.join("/room", names) == 2500
        assert await lease.join("/room", {"ann": {"role": "buyer"}, "bob": {"role": "seller"}}) == 2
        assert await lease.join("/room", names[:10]) == 10, "they are there already"
        assert await room.value("ann") == {"role": "buyer"}
        with pytest.raises(ecumene.EcumeneError):
            await other.join("/room", ["ann"])
        assert await other.leave("/room", ["ann", "nobody"]) == 0
        assert await lease.leave("/room", ["ann", "nobody"]) == 1
        assert await other.join("/room", ["ann"]) == 1
    expected = {EventType.MEMBER_JOINED: 2503, EventType.MEMBER_LEFT: 1, EventType.MEMBER_EXPIRED: 2502}
    seen: dict[EventType, int] = {}
    async with asyncio.timeout(30):
        while sum(seen.values()) < sum(expected.values()):
            event = await anext(watch)
            seen[event.type] = seen.get(event.type, 0) + 1
    assert seen == expected


async def test_a_gate_waits_for_the_members_that_live(real_world: World) -> None:
    people, reports = real_world.environment("/room"), real_world.environment("/reports")
    gate = Gate("all", all_live_members=True, members_path="/room")
    await reports.register(gates=[gate])
    assert (await reports.describe()).gates[0].gate == gate
    watch = reports.watch(types=[EventType.GATE_OPENED])
    async with real_world.lease(TTL_S) as lease, real_world.lease(TTL_S) as short:
        await lease.join(people.path, ["ann", "bob"])
        await short.join(people.path, ["cy"])
        await reports.begin_generation("all")
        await reports.set("ann", 1)
        await reports.set("bob", 2)
        assert not (await reports.aggregates()).gates["all"].opened
        await short.leave(people.path, ["cy"])
        async with asyncio.timeout(5):
            assert (await anext(watch)).key == "all"
