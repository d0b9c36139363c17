"""Leases of a real server that is stopped, killed and stormed: none ends without reason, and none comes back.

Case 15: all leases were revoked by a server that had been stuck; hundreds of expiries a second paralysed it; an expired
session was silently replaced by a new one.
"""

from __future__ import annotations

import asyncio
import random
import time
from pathlib import Path
from typing import Any

import ecumene
import grpc
import pytest
from ecumene.client import ClientSettings, EntryNotFoundError, EventType, LeaseExpiredError
from env_api.v1 import lease_service_pb2 as pb
from env_api.v1 import session_pb2, values_pb2
from env_api.v1.operations_pb2 import Register
from env_api.v1.values_pb2 import ENTRY_KIND_MEMBER as MEMBER

from tests.raw_client import Failure, RawSession, call, decode_call_error
from tests.services import ServerProcess

TTL_MS = 2000
STORM_TTL_MS = 5000
SETTINGS = ClientSettings(backoff_first_ms=10, backoff_ms_max=200, reconnect_timeout_s=60)
SERVICE = "/env_api.v1.LeaseService/"
FRAME = 4000


async def ask(channel: grpc.aio.Channel, name: str, **fields: Any) -> Any:
    """A call of the LeaseService; the response, or how it failed."""
    request = getattr(pb, f"{name}Request")(**fields)
    response = getattr(pb, f"{name}Response")
    try:
        return await channel.unary_unary(SERVICE + name, type(request).SerializeToString, response.FromString)(
            request, timeout=60
        )
    except grpc.aio.AioRpcError as error:
        return decode_call_error(error)


async def grant_all(channel: grpc.aio.Channel, count: int, ttl_ms: int) -> list[int]:
    """Ids of new leases, granted in calls in flight together."""
    granted = await asyncio.gather(*[ask(channel, "GrantLease", ttl_ms=ttl_ms) for _ in range(count)])
    return sorted(one.lease_id for one in granted)


async def join(session: RawSession, path: str, keys: list[str], lease: int) -> None:
    """Members in blocks; all must join."""
    for first in range(0, len(keys), FRAME):
        part = keys[first : first + FRAME]
        block = session_pb2.SetBlock(keys=part, ints=[0] * len(part), join_lease_id=lease)
        answers = await session.send(session_pb2.OpFrame(paths=[path], block=block))
        assert not any(answer.outcomes for answer in answers)


async def keep(session: RawSession, *leases: int) -> session_pb2.LeasesKept:
    message = session_pb2.SessionRequest(keep_alive=session_pb2.LeaseKeepAlive(lease_ids=leases))
    await session.write(message.SerializeToString())
    return (await session.read()).leases_kept


async def members_of(world: ecumene.client.World, path: str) -> int:
    return (await world.environment(path).describe()).entry_count


async def test_no_lease_ends_while_the_server_is_stopped(tmp_path: Path) -> None:
    """SIGSTOP for three times the time of every lease: all live on, are kept alive, and end when they are not."""
    with ServerProcess(tmp_path / "data") as server:
        async with (
            ecumene.connect(server.address, settings=SETTINGS) as world,
            grpc.aio.insecure_channel(server.address) as channel,
        ):
            await world.environment("/m").register()
            leases = await grant_all(channel, 100, TTL_MS)
            session = await RawSession(channel, "worker").open()
            for lease in leases:
                await join(session, "/m", [f"m{lease}"], lease)
            before = world.revision
            assert len((await keep(session, *leases)).lease_ids) == 100
            server.pause()
            await asyncio.sleep(3 * TTL_MS / 1000)
            server.resume()
            kept = await keep(session, *leases)
            assert (len(kept.lease_ids), list(kept.ended)) == (100, [])
            await asyncio.sleep(TTL_MS / 2000)
            kept = await keep(session, *leases[:50])
            assert len(kept.lease_ids) == 50
            assert await members_of(world, "/m") == 100
            await until(lambda: members_are(world, "/m", 50), 3 * TTL_MS / 1000, lambda: keep(session, *leases[:50]))
            kept = await keep(session, *leases)
            assert (list(kept.lease_ids), list(kept.ended)) == (leases[:50], leases[50:])
            ended = await ended_leases(world, before)
            assert sorted(ended) == leases[50:], "each once, and no other"
            session.cancel()


async def test_an_ended_lease_stays_ended_whatever_is_asked_of_it(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        async with grpc.aio.insecure_channel(server.address) as channel:
            (lease,) = await grant_all(channel, 1, 1000)
            session = await RawSession(channel, "worker").open()
            await asyncio.sleep(1.6)
            for _ in range(2):
                assert list((await keep(session, lease)).ended) == [lease]
                response = await ask(channel, "KeepLeasesAlive", lease_ids=[lease])
                assert (list(response.lease_ids), list(response.ended)) == ([], [lease])
                block = session_pb2.SetBlock(keys=["a"], ints=[0], join_lease_id=lease)
                (answer,) = await session.send(session_pb2.OpFrame(paths=["/"], block=block))
                assert answer.outcomes[0].error.metadata["lease"] == str(lease)
                failed = await ask(channel, "RevokeLease", lease_id=lease)
                assert (failed.code, failed.reason) == (grpc.StatusCode.FAILED_PRECONDITION.value[0], "LEASE_EXPIRED")
                assert not (await ask(channel, "ListLeases")).leases
                session.cancel()
                server.kill()
                await asyncio.to_thread(server.start)
                session = await RawSession(channel, "worker").open()
            session.cancel()


@pytest.mark.timeout(240)
async def test_a_storm_of_expiries_paralyses_nobody(tmp_path: Path) -> None:
    await run_storm(tmp_path, members=20_000, leases=2_000, quantile=0.9)


@pytest.mark.long
@pytest.mark.timeout(900)
async def test_a_storm_of_a_hundred_thousand_expiries_paralyses_nobody(tmp_path: Path) -> None:
    await run_storm(tmp_path, members=100_000, leases=10_000, quantile=0.99)


async def run_storm(tmp_path: Path, members: int, leases: int, quantile: float) -> None:
    """One lease with many members and many leases with one each, all due at once; others work on meanwhile.

    A short storm sees few writes, and one hiccup of the machine is more than a hundredth of them: hence `quantile`.
    """
    with ServerProcess(tmp_path / "data") as server:
        async with (
            ecumene.connect(server.address, settings=SETTINGS) as world,
            grpc.aio.insecure_channel(server.address) as channel,
        ):
            await world.environment("/m").register()
            session = await RawSession(channel, "worker").open()
            ids: list[int] = []
            keeper = asyncio.create_task(keep_all(server.address, ids), name="keeper")
            while len(ids) <= leases:
                ids += await grant_all(channel, min(1 + leases - len(ids), 250), STORM_TTL_MS)
            own = await world.lease(10)
            await join(session, "/m", [f"b{number:06}" for number in range(members)], ids[0])
            await join_each(session, "/m", ids[1:])
            await own.join("/m", ["survivor"])
            assert await members_of(world, "/m") == members + leases + 1
            keeper.cancel()
            await until(lambda: members_are(world, "/m", members + leases + 1, is_not=True), 3 * STORM_TTL_MS / 1000)
            began = time.monotonic()
            waits: list[float] = []
            writers = [asyncio.create_task(write_on(world, f"n{n}", waits), name=f"writer {n}") for n in range(8)]
            await until(lambda: members_are(world, "/m", 1), 60)
            took_s = time.monotonic() - began
            for writer in writers:
                writer.cancel()
            await asyncio.gather(keeper, *writers, return_exceptions=True)
            usual_ms = await measure_usual_wait_ms(world, quantile)
            waits.sort()
            waited_ms = 1000 * waits[int(len(waits) * quantile)]
            print(
                f"{members + leases} gone in {took_s:.1f} s; {len(waits)} writes, "
                f"{quantile:.0%} in {waited_ms:.0f} ms, {usual_ms:.0f} ms when nothing else goes on"
            )
            assert len(waits) >= 50, "too little load shows nothing"
            # Where the machine is so busy that writes take long anyway, the storm makes them no paralysis either.
            assert waited_ms < max(250, 4 * usual_ms)
            assert took_s < 30
            assert not own.is_ended
            assert (await world.environment("/m").get("survivor")).value == 1
            assert [one.lease_id for one in (await ask(channel, "ListLeases")).leases] == [own.id]
            await own.revoke()
            session.cancel()


async def keep_all(address: str, leases: list[int]) -> None:
    """Keeps all that are in the list alive until cancelled."""
    async with grpc.aio.insecure_channel(address) as channel:
        while True:
            assert not (await ask(channel, "KeepLeasesAlive", lease_ids=leases)).ended
            await asyncio.sleep(0.5)


async def join_each(session: RawSession, path: str, leases: list[int]) -> None:
    """One member under each lease."""
    for first in range(0, len(leases), FRAME):
        ops = [
            session_pb2.Op(path=0, key=f"s{lease}", register=Register(entry_kind=MEMBER, lease_id=lease))
            for lease in leases[first : first + FRAME]
        ]
        answers = await session.send(session_pb2.OpFrame(paths=[path], ops=ops))
        assert not any(answer.outcomes for answer in answers)


async def write_on(world: ecumene.client.World, key: str, waits: list[float]) -> None:
    """One write after the other until cancelled; `waits` gets how long each took."""
    place = world.environment("/")
    while True:
        at = time.monotonic()
        await place.increment(key, 1)
        waits.append(time.monotonic() - at)


async def measure_usual_wait_ms(world: ecumene.client.World, quantile: float) -> float:
    """How long writes of the same writers take on this machine as it is."""
    waits: list[float] = []
    writers = [asyncio.create_task(write_on(world, f"n{n}", waits), name=f"writer {n}") for n in range(8)]
    await until(lambda: has_many(waits, 400), 60)
    for writer in writers:
        writer.cancel()
    await asyncio.gather(*writers, return_exceptions=True)
    waits.sort()
    return 1000 * waits[int(len(waits) * quantile)]


async def has_many(waits: list[float], count: int) -> bool:
    return len(waits) >= count


@pytest.mark.timeout(240)
async def test_kills_in_the_middle_of_an_expiry_leave_exact_totals(tmp_path: Path, seed: int) -> None:
    """What was under the lease goes once, whatever life of the server deletes it; nothing else is touched."""
    chance = random.Random(seed)
    members, others = 60_000, 500
    with ServerProcess(tmp_path / "data") as server:
        async with (
            ecumene.connect(server.address, settings=SETTINGS) as world,
            grpc.aio.insecure_channel(server.address) as channel,
        ):
            place = world.environment("/m")
            await place.register()
            session = await RawSession(channel, "worker").open()
            lease, mine = await grant_all(channel, 2, 3_600_000)
            await join(session, "/m", [f"m{number:06}" for number in range(members)], lease)
            await join(session, "/m", [f"o{number:06}" for number in range(others)], mine)
            revision = (await place.set("before", 1)).revision
            session.cancel()
            await ask(channel, "RevokeLease", lease_id=lease)
            kills = cut_off = 0
            while (left := await members_of(world, "/m")) > others + 1:
                await asyncio.sleep(chance.uniform(0.0, 0.25))
                server.kill()
                kills += 1
                await asyncio.to_thread(server.start)
                cut_off += 0 < await members_of(world, "/m") - others - 1 < left
                assert kills < 100
            assert cut_off >= 2, "no kill fell into the middle"
            end = (await place.set("after", 1)).revision
            expired: list[str] = []
            ended = 0
            async for batch in world.watch_frames(from_revision=revision):
                expired += [event.key for event in batch if event.type == EventType.MEMBER_EXPIRED]
                ended += sum(event.type == EventType.LEASE_ENDED for event in batch)
                if batch.through_revision >= end:
                    break
            assert sorted(expired) == [f"m{number:06}" for number in range(members)], "each once"
            assert ended == 1
            assert await members_of(world, "/m") == others + 2
            listed = {one.lease_id: one.entry_count for one in (await ask(channel, "ListLeases")).leases}
            assert listed == {mine: others}


async def test_everything_under_a_lease_survives_restarts_of_both_kinds_and_goes_with_it(tmp_path: Path) -> None:
    """From the log after a kill, from the state tables after a stop."""
    with ServerProcess(tmp_path / "data") as server:
        async with grpc.aio.insecure_channel(server.address) as channel:
            (lease,) = await grant_all(channel, 1, 60_000)
            kinds = values_pb2.EntryKind.values()[1:]
            for kind in kinds:
                register = Register(entry_kind=kind, lease_id=lease)
                assert (await call(channel, "register", path="/", key=f"k{kind}", register=register)).written.changed
            await call(channel, "register", path="/room", register=Register(lease_id=lease))
            await call(channel, "update", path="/", key="k2", update={"add_int": 5})
            await call(channel, "update", path="/", key="k3", update={"append": {"int_value": 5}})
            await call(channel, "update", path="/", key="k4", update={"set": {"int_value": 5}})

            async def seen() -> list[Any]:
                keys = [("/", f"k{kind}") for kind in kinds] + [("/room", "")]
                found = [await call(channel, "query", path=path, key=key, query={"get": {}}) for path, key in keys]
                return [one if isinstance(one, Failure) else one.result for one in found]

            before = await seen()
            assert [one.entry.kind for one in before[:4]] == list(kinds)
            assert {one.entry.lease_id for one in before[:4]} == {lease}
            assert before[4].environment.lease_id == lease
            for end in (server.kill, server.stop, server.kill):
                await asyncio.to_thread(end)
                await asyncio.to_thread(server.start)
                assert await seen() == before
                (listed,) = (await ask(channel, "ListLeases")).leases
                assert (listed.lease_id, listed.entry_count) == (lease, 5)
            await ask(channel, "RevokeLease", lease_id=lease)
            server.kill()
            await asyncio.to_thread(server.start)

            async def all_gone() -> bool:
                return all(isinstance(one, Failure) for one in await seen())

            await until(all_gone, 10)
            assert [one.reason for one in await seen()] == ["ENTRY_NOT_FOUND"] * 4 + ["ENVIRONMENT_NOT_FOUND"]


async def test_a_worker_that_is_gone_takes_its_members_along_and_one_that_restarts_must_ask_anew(
    tmp_path: Path,
) -> None:
    with ServerProcess(tmp_path / "data") as server:
        async with ecumene.connect(server.address, settings=SETTINGS) as watching:
            await watching.environment("/m").register()
            worker = await ecumene.connect(server.address, settings=SETTINGS)
            lease = await worker.lease(1)
            await lease.join("/m", ["a", "b"])
            await asyncio.sleep(2.5)
            assert await members_of(watching, "/m") == 2, "kept alive in the background"
            server.pause()
            await asyncio.sleep(3)
            server.resume()
            await asyncio.sleep(0.7)
            assert await members_of(watching, "/m") == 2
            await worker.close()
            await until(lambda: members_are(watching, "/m", 0), 10)
            with pytest.raises(EntryNotFoundError):
                await watching.environment("/m").get("a")
            again = await watching.lease(5)
            assert await again.join("/m", ["a"]) == 1
            await again.revoke()
            with pytest.raises(LeaseExpiredError):
                await again.join("/m", ["c"])


async def members_are(world: ecumene.client.World, path: str, count: int, *, is_not: bool = False) -> bool:
    return (await members_of(world, path) == count) is not is_not


async def until(holds: Any, timeout_s: float, meanwhile: Any = None) -> None:
    """Asks again and again; `meanwhile` is done in between."""
    async with asyncio.timeout(timeout_s):
        while not await holds():
            if meanwhile is not None:
                await meanwhile()
            await asyncio.sleep(0.05)


async def ended_leases(world: ecumene.client.World, after: int) -> list[int]:
    """Ids of leases that ended after a revision."""
    end = (await world.environment("/").set("mark", 1)).revision
    found: list[int] = []
    async for batch in world.watch_frames(from_revision=after + 1):
        found += [int(event.key) for event in batch if event.type == EventType.LEASE_ENDED]
        if batch.through_revision >= end:
            break
    return found
