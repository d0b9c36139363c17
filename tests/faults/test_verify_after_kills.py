"""Worlds left by servers that were killed under load: whole to the last check, and the same from their log alone."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from env_server.offline.replay import rebuild
from env_server.offline.verify import verify
from tests.faults.test_replay_equals_state import keep_sending
from tests.services import ServerProcess

KILLS, KILLS_LONG = 3, 30
CLIENTS = 2
LIFE_S = (0.5, 1.5)


async def check_kills(directory: Path, seed: int, kills: int) -> None:
    rng = random.Random(seed)
    # A small map: a saving round begins every 4 MiB of log, so that kills meet tables that are half written.
    server = ServerProcess(directory / "data", "--map-mib", "64")
    world = directory / "data" / "main"
    revisions = []
    for number in range(kills):
        with server:
            stopped = asyncio.Event()
            senders = [
                asyncio.create_task(keep_sending(server, f"sender{sender}", seed + number, stopped), name="sender")
                for sender in range(CLIENTS)
            ]
            await asyncio.sleep(rng.uniform(*LIFE_S))
            server.kill()
            stopped.set()
            await asyncio.gather(*senders)
        report = verify(world)
        assert report.is_whole, report.problems.told
        assert report.is_replayed, "the log was cut: this shows half of it"
        assert report.head is not None
        revisions.append(report.head.revision)
        through = rng.randrange(1, revisions[-1] + 1)
        ids = iter(f"{number}-{name}" for name in "abc")
        rebuilt = rebuild(world, through, directory / f"again-{number}", lambda ids=ids: next(ids))  # type: ignore[misc]
        assert rebuilt.revision == through
        again = verify(directory / f"again-{number}")
        assert again.is_whole, again.problems.told
        assert again.is_replayed
    assert revisions[-1] > 100 * kills, "with so little load this shows nothing"


async def test_killed_worlds_are_whole_to_the_last_check(tmp_path: Path, seed: int) -> None:
    await check_kills(tmp_path, seed, KILLS)


@pytest.mark.long
@pytest.mark.timeout(900)
async def test_many_killed_worlds_are_whole_to_the_last_check(tmp_path: Path, seed: int) -> None:
    await check_kills(tmp_path, seed, KILLS_LONG)
