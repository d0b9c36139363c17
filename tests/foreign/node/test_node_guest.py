"""A program of Node plays the guess game beside agents: the round waits for it as long as it lives, and counts it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import subprocess
import time
from collections.abc import AsyncIterator
from pathlib import Path

import ecumene
import pyarrow.dataset as ds
import pytest
from ecumene.client.records import TurnStatus
from ecumene.sim import RoundResult, RunOptions, RunOutcome, parse_spec, run

from tests.foreign.node.conftest import InstallProgram
from tests.journey.test_run import Silent
from tests.services import ROOT, ServerProcess

GUEST = ROOT / "examples" / "node_guest" / "guest.js"
AGENTS = 20
LEASE_S = 2.0
DEADLINE_S = 100
LEVEL_2 = 50 * (2 / 3) ** 2


@contextlib.asynccontextmanager
async def play_guest(
    program: Path, server: ServerProcess, *arguments: str
) -> AsyncIterator[asyncio.subprocess.Process]:
    """The guest, which waits for a game; killed at the end if it lives."""
    command = ["node", program.name, "--server", server.address, "--world", "party", "--protos", str(ROOT / "protos")]
    guest = await asyncio.create_subprocess_exec(
        *(*command, "--lease", f"{LEASE_S:g}", *arguments), cwd=program.parent, stdout=subprocess.PIPE
    )
    try:
        yield guest
    finally:
        if guest.returncode is None:
            guest.kill()
        await guest.communicate()


async def play_run(directory: Path, server: ServerProcess, rounds: int, observer: Silent) -> RunOutcome:
    """Agents that all think two steps, and whoever joins; the first round waits for one guest."""
    groups = [{"name": "all", "agent": "level-k", "count": AGENTS, "parameters": {"level": 2}}]
    document = {
        "name": "story",
        "world": "party",
        "population": {"groups": groups},
        "game": {"rounds": rounds, "deadline_s": DEADLINE_S, "guests": 1},
        "recording": {"directory": str(directory)},
    }
    playing = run(parse_spec(document), observer=observer, options=RunOptions(server=server.address))
    return await asyncio.wait_for(playing, DEADLINE_S)


@pytest.mark.timeout(240)
async def test_a_guest_plays_beside_agents_and_nothing_tells_it_from_one(
    install_program: InstallProgram, tmp_path: Path
) -> None:
    program = await asyncio.to_thread(install_program, GUEST)
    with ServerProcess(tmp_path / "data") as server:
        async with play_guest(program, server, "--rounds", "2") as guest:
            outcome = await play_run(tmp_path, server, 3, Silent())
            assert await guest.wait() == 0
        async with ecumene.connect(server.address, "party") as world:
            kept = {entry.key: entry.value async for entry in world.environment("/game/reports").entries()}
    first, second, third = outcome.rounds
    assert [told.gate_cause for told in outcome.rounds] == ["members"] * 3
    assert [(told.participants, told.reported) for told in (first, second)] == [(AGENTS + 1, AGENTS + 1)] * 2
    assert (third.reported, third.failed) == (AGENTS, 0), "it has left, and nobody waits for it"
    numbers = [told.guests["nora"].number for told in (first, second)]
    assert numbers[0] == pytest.approx(100 / 3), "one step of thought"
    assert first.mean == pytest.approx((AGENTS * LEVEL_2 + 100 / 3) / (AGENTS + 1))
    # In the records, and so in the report, it is a player as any other.
    rows = outcome.report.rows
    assert [row.reported for row in rows] == [AGENTS + 1, AGENTS + 1, AGENTS]
    assert [row.mean for row in rows] == pytest.approx([told.mean for told in outcome.rounds])
    assert [row.statuses for row in rows[:2]] == [{"ok": AGENTS + 1}] * 2
    actions = ds.dataset(outcome.directory / "actions").to_table().sort_by("round").to_pylist()
    assert [row["value_double"] for row in actions if row["agent"] == "nora"] == numbers
    assert len(kept) == AGENTS + 1 and kept["nora"] == numbers[1]
    summary = json.loads((outcome.directory / "summary.json").read_text(encoding="utf-8"))
    assert [row["turnless"] for row in summary["rounds"]] == [0, 0, 0]


@pytest.mark.timeout(240)
async def test_a_guest_that_is_killed_in_the_middle_of_a_round_is_waited_for_until_its_lease_ends(
    install_program: InstallProgram, tmp_path: Path
) -> None:
    program = await asyncio.to_thread(install_program, GUEST)
    with ServerProcess(tmp_path / "data") as server:
        async with play_guest(program, server, "--think", str(DEADLINE_S)) as guest:
            killer = Killer(guest)
            outcome = await play_run(tmp_path, server, 2, killer)
            assert await guest.wait() == -signal.SIGKILL
    first, second = outcome.rounds
    assert (first.participants, first.reported, first.missing) == (AGENTS + 1, AGENTS, 1)
    assert (first.gate_cause, first.mean) == ("members", pytest.approx(LEVEL_2))
    assert (first.guests["nora"].status, first.guests["nora"].number) == (TurnStatus.CANCELLED, None)
    assert LEASE_S / 2 < killer.waited_s < LEASE_S + 2, "no longer than its lease, and 2 s"
    assert (second.participants, second.reported, second.guests) == (AGENTS, AGENTS, {})
    assert [row.statuses for row in outcome.report.rows] == [{"ok": AGENTS, "cancelled": 1}, {"ok": AGENTS}]


class Killer(Silent):
    """Kills the guest when nobody else is missing, and measures how long the round lasts then."""

    def __init__(self, guest: asyncio.subprocess.Process) -> None:
        self._guest = guest
        self._killed_s = 0.0
        self.waited_s = 0.0

    def reports_counted(self, round_number: int, reported: int) -> None:
        """Perhaps now."""
        if reported == AGENTS and not self._killed_s:
            self._guest.kill()
            self._killed_s = time.monotonic()

    def round_closed(self, result: RoundResult) -> None:
        """How long the first one lasted."""
        self.waited_s = self.waited_s or time.monotonic() - self._killed_s
