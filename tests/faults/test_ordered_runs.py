"""A run whose outcome depends on order has one digest on any number of workers, if that order is its agents' own."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from ecumene.client import EventFilter, EventType
from ecumene.client.records import RunDigest, digest_entries, digest_state, digest_turns

from tests.faults.takeovers import Runtime, open_world
from tests.services import ServerProcess
from tests.unit.agent_runtime.stage import write_agents

TRADERS, ROUNDS = 24, 3
MODULE = "tests.faults.ordered_market"
WANTED = [{"path": "/market", "types": ["behaviour"], "key": "intents.wanted"}]


async def trade(folder: Path, workers: int) -> RunDigest:
    """All rounds on a server of their own."""
    await asyncio.to_thread(folder.mkdir)
    traders = [f"t-{number}" for number in range(TRADERS)]
    group = {"name": "t", "agent": f"{MODULE}:Trader", "wake": WANTED}
    group["agents"] = str(write_agents(folder / "t.arrow", traders))
    launch = {"run": "r", "seed": 3, "workers": workers, "recording": str(folder / "rec"), "groups": [group]}
    with ServerProcess(folder / "data", "--behaviour", f"{MODULE}:OrderedMarket") as server:
        async with open_world(server) as world:
            market = world.environment("/market")
            await market.register(kind="ordered_market")
            for trader in traders:
                await market.invoke("deposit", trader=trader, cash=60, goods={"oil": 4})
            runtime = Runtime(folder, launch, server.address)
            assert (await runtime.start())["state"] == "ready"
            try:
                opened = EventFilter(path_prefix="/market/intents", types=(EventType.GATE_OPENED,))
                async with world.watch(opened) as gates, asyncio.timeout(60):
                    for _ in range(ROUNDS):
                        wanted: Any = await market.invoke("want_intents", participants=TRADERS)
                        await anext(gates)
                        applied: Any = await market.invoke("apply_intents", generation=wanted["generation"])
                        assert (applied["agents"], applied["applied"] + applied["refused"]) == (TRADERS, 3 * TRADERS)
            finally:
                assert await runtime.stop() == 0
            rolled = await digest_entries(world, [("/market", "book.oil"), ("/market", "trades")])
            return RunDigest(digest_turns(folder / "rec"), await digest_state(world), rolled)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("workers", [4, pytest.param(16, marks=pytest.mark.long)])
async def test_a_market_comes_to_the_same_on_any_number_of_workers(tmp_path: Path, workers: int) -> None:
    assert await trade(tmp_path / "many", workers) == await trade(tmp_path / "one", 1)
