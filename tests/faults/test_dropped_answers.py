"""Answers that are lost on the way: whatever was asked has one effect, and the caller gets its outcome (case 13)."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import ecumene
import pytest
from ecumene import ClientSettings, EventFilter, World, Worlds

from tests.services import ServerProcess
from tests.tcp_proxy import TcpProxy

QUICK = ClientSettings(backoff_first_ms=5, backoff_ms_max=50, reconnect_timeout_s=30, call_timeout_s=30)
ROUNDS = 8
ROUNDS_LONG = 60


class Ops:
    """Ops of every kind whose repetition would be seen."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.place = world.environment("/load")
        self.done = 0

    async def run_one(self, number: int) -> None:
        """All kinds, in flight together."""
        move = self.world.transaction().increment("/load", "from", -1).increment("/load", "to", 1)
        frame = self.world.frame()
        frame.increment("/load", "framed")
        results: Any = await asyncio.gather(
            self.place.increment("count"),
            self.place.append("log", number),
            self.place.create(f"new-{number}", number),
            self.place.set("mine", number, producer="me", seq=number),
            move.commit(),
            self.world.frames.send(frame),
            self.world.frames.send_block("/load", ["blocked"], [1], add=True),
            self.place.delete(f"new-{number - 1}"),
        )
        results[5].raise_failure()
        results[6].raise_failure()
        self.done += 1


async def run_rounds(tmp_path: Path, rounds: int, chance: random.Random) -> None:
    with ServerProcess(tmp_path / "data") as server:
        async with (
            TcpProxy(server.address) as proxy,
            ecumene.connect(server.address) as direct,
            ecumene.connect(proxy.address, settings=QUICK) as world,
        ):
            place = direct.environment("/load")
            await place.register()
            await place.create_stream("log", items_max=100_000)
            await place.create("new-0", 0)
            ops = Ops(world)
            effects = place.watch(key_glob="count", from_revision=1)  # told of each round, however late it begins
            for number in range(1, rounds + 1):
                proxy.drops_answers = True
                asked = asyncio.create_task(ops.run_one(number), name="asked")
                async with asyncio.timeout(20):
                    await anext(effects)  # the server has done it, and nobody heard
                await asyncio.sleep(chance.uniform(0, 0.02))
                assert not asked.done()
                proxy.drops_answers = False
                proxy.cut()
                async with asyncio.timeout(20):
                    await asked
            assert ops.done == rounds
            assert proxy.answer_bytes_dropped > 0
            assert world.statistics().streams_opened > rounds
            totals = {key: await place.value(key) for key in ("count", "from", "to", "framed", "blocked", "mine")}
            assert totals == {**dict.fromkeys(("count", "to", "framed", "blocked", "mine"), rounds), "from": -rounds}
            log = await place.read_stream("log")
            assert [item.value for item in log.items] == list(range(1, rounds + 1))


async def test_ops_whose_answers_are_lost_have_one_effect(tmp_path: Path, seed: int) -> None:
    await run_rounds(tmp_path, ROUNDS, random.Random(seed))


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_ops_whose_answers_are_lost_have_one_effect_in_many_rounds(tmp_path: Path, seed: int) -> None:
    await run_rounds(tmp_path, ROUNDS_LONG, random.Random(seed))


async def lose_answer(proxy: TcpProxy, call: Any, happened: Any) -> Any:
    """Ask with the answer lost once; return what the repetition was told."""
    proxy.drops_answers = True
    asked = asyncio.create_task(call, name="asked")
    async with asyncio.timeout(20):
        while not await happened():  # noqa: ASYNC110 - it happens in another process
            await asyncio.sleep(0.01)
    proxy.drops_answers = False
    proxy.cut()
    async with asyncio.timeout(20):
        return await asked


async def test_calls_outside_the_session_have_one_effect_too(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        async with (
            TcpProxy(server.address) as proxy,
            ecumene.connect(server.address) as direct,
            ecumene.connect(proxy.address, settings=QUICK) as world,
            Worlds(server.address) as true_worlds,
            Worlds(proxy.address, QUICK, 30) as worlds,
        ):
            await worlds.list()
            await world.leases()  # both are connected before anything is lost

            async def has_lease() -> bool:
                return bool(await direct.leases())

            lease = await lose_answer(proxy, world.lease(60)._grant(), has_lease)
            assert [info.lease_id for info in await direct.leases()] == [lease.id], "one, and it is ours"

            async def has_none() -> bool:
                return not await direct.leases()

            await lose_answer(proxy, lease.revoke(), has_none)

            async def has_subscription() -> bool:
                return bool(await direct.subscriptions())

            inbox = world.subscription("inbox")
            made = await lose_answer(proxy, inbox.create(EventFilter()), has_subscription)
            assert [info.create_revision for info in await direct.subscriptions()] == [made.create_revision]

            async def has_no_subscription() -> bool:
                return not await direct.subscriptions()

            await lose_answer(proxy, inbox.delete(), has_no_subscription)

            async def has_world() -> bool:
                return len(await true_worlds.list()) == 2

            await worlds.list()
            assert (await lose_answer(proxy, worlds.create("second", if_absent=True), has_world)).name == "second"


async def test_what_has_no_identity_is_not_repeated_and_says_that_it_may_have_happened(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        async with (
            TcpProxy(server.address) as proxy,
            Worlds(server.address) as true_worlds,
            Worlds(proxy.address, QUICK, 30) as worlds,
        ):

            async def has_world() -> bool:
                return len(await true_worlds.list()) == 2

            await worlds.list()
            with pytest.raises(ecumene.UnavailableError) as caught:
                await lose_answer(proxy, worlds.create("second"), has_world)
            assert not isinstance(caught.value, ecumene.ConnectionFailedError)
            assert len(proxy.attempts_at) == 1
