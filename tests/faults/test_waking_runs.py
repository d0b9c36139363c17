"""Whole runs of agents that wake at times: the digest does not depend on how many workers host them, or on a kill."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from ecumene.client.records import RunDigest, digest_state, digest_turns
from ecumene.launch.waking import wait_woken

from tests.faults.takeovers import Runtime, open_world
from tests.faults.waking import DONE_S, Town, describe_town
from tests.services import ServerProcess

RESIDENTS, HOURLY = 8, 40
TTL_S = 12.0
"""A worker that stands still longer on a busy machine would end its runtime."""
STEPS_H = (7.5, 3, 20, 30)
"""Hours by which the clock goes on: at some of them several wakes of an agent are passed at once."""


async def play(folder: Path, *, workers: int, is_killed: bool = False) -> RunDigest:
    """One run from its beginning to its end; the runtime is killed after the second step, if it is, and resumed."""
    launch = describe_town(folder, residents=RESIDENTS, hourly=HOURLY, parts=workers, ttl_s=TTL_S) | {
        "workers": workers,
        "recording": str(folder / "rec"),
    }
    with ServerProcess(folder / "data") as server:
        runtime = Runtime(folder, launch, server.address)
        async with open_world(server) as world:
            town = Town(world, residents=RESIDENTS, hourly=HOURLY)
            await town.prepare()
            assert "error" not in await runtime.start()
            for step, hours in enumerate(STEPS_H):
                now_ns = (await town.advance(hours)).now_ns
                if is_killed and step == 2:
                    await asyncio.sleep(0.1)
                    await runtime.kill()
                    assert "error" not in await runtime.start(resume=True, workers=workers)
                await wait_woken(world, "r", now_ns, agents=RESIDENTS + HOURLY, timeout_s=DONE_S)
                found = await town.read_logs(), await town.read_seen()
                assert found == (town.expect_log(now_ns), town.expect_seen(now_ns))
            await town.check_once(now_ns)
            assert await runtime.stop() == 0
            return RunDigest(digest_turns(folder / "rec"), await digest_state(world), "")


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_the_digest_is_that_of_one_worker(tmp_path: Path) -> None:
    for name in ("alone", "four", "killed"):
        (tmp_path / name).mkdir()
    alone = await play(tmp_path / "alone", workers=1)
    assert await play(tmp_path / "four", workers=4) == alone
    assert await play(tmp_path / "killed", workers=2, is_killed=True) == alone
