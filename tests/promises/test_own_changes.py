"""A watch that leaves out a client's own changes: whoever its ops name as producer, live and in a replay alike."""

from __future__ import annotations

import asyncio
from pathlib import Path

import ecumene
from ecumene.client import ClientSettings, EventFilter

from tests.services import ServerProcess

SETTINGS = ClientSettings(backoff_first_ms=5, backoff_ms_max=50)


async def write(world: ecumene.World, name: str) -> None:
    """Everything that a session may send: plain ops, ops and blocks of other producers, calls beside the session."""
    place = world.environment("/")
    await place.set(f"{name}-plain", 1)
    await place.set(f"{name}-producer", 1, producer=f"{name}-agent", seq=1)
    keys = [f"{name}-block-{number}" for number in range(5)]
    await world.frames.send_block("/", keys, [1] * 5, producers=[f"{name}-{number}" for number in range(5)], seqs=1)
    frame = world.frame()
    frame.set("/", f"{name}-row", 1, producer=f"{name}-row", seq=1)
    frame.set("/", f"{name}-row-plain", 1)
    (await world.frames.send(frame)).raise_failure()
    await world.transaction().set("/", f"{name}-transaction", 1).commit()
    lease = await world.lease(60)
    await lease.revoke()
    await world.subscription(f"{name}-inbox").create(EventFilter())


async def hear(world: ecumene.World, from_revision: int, last_key: str) -> list[str]:
    """Keys told up to one that a foreigner wrote last."""
    told = []
    async with world.environment("/").watch(exclude_own=True, from_revision=from_revision) as watch:
        async with asyncio.timeout(20):
            async for event in watch:
                told.append(event.key)
                if event.key == last_key:
                    return told
    raise AssertionError("the watch ended")


async def test_nothing_that_a_session_has_sent_is_told_to_it_live_and_after_a_restart(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        async with (
            ecumene.connect(server.address, client_id="me", settings=SETTINGS) as mine,
            ecumene.connect(server.address, client_id="other", settings=SETTINGS) as theirs,
        ):
            start = mine.statistics().revision + 1
            live = asyncio.create_task(hear(mine, start, "other-end"), name="live")
            await asyncio.gather(write(mine, "me"), write(theirs, "other"))
            await theirs.environment("/").set("other-end", 1)
            told = await live
            wanted = {"other-plain", "other-producer", "other-row", "other-row-plain", "other-transaction"}
            wanted |= {f"other-block-{number}" for number in range(5)} | {"other-inbox", "other-end"}
            assert wanted <= set(told)
            assert not any(key.startswith("me-") for key in told), told
            assert len(told) == len(wanted) + 2, "and the other's lease, granted and revoked"
            assert await hear(mine, start, "other-end") == told
            server.kill()
            await asyncio.to_thread(server.start)
            assert await hear(mine, start, "other-end") == told
            own = await hear(theirs, start, "me-end") if await mine.environment("/").set("me-end", 1) else []
            assert not any(key.startswith("other-") for key in own)
            assert {"me-plain", "me-producer", "me-block-0", "me-row", "me-inbox"} <= set(own)
