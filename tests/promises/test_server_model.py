"""A real server against the model: any ops in frames and calls, leases, kill -9 with all of it in flight, watches.

P1 to P10 over a network and a disk, as `test_engine_model` in one process.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import seed as hypothesis_seed
from hypothesis.stateful import run_state_machine_as_test

from tests.promises.server_machine import ServerMachine
from tests.services import ServerProcess

RUNS, RUNS_LONG = 5, 100
STEPS, STEPS_LONG = 15, 30


def run(server: ServerProcess, seed: int, runs: int, steps: int) -> int:
    """Runs the machine; raises what it finds. Returns how many kills there were."""
    chosen = settings(
        max_examples=runs,
        stateful_step_count=steps,
        deadline=None,
        phases=(Phase.generate,),
        database=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )
    loop = asyncio.new_event_loop()
    machine = type("SeededMachine", (ServerMachine,), {"server": server, "loop": loop, "kills": 0})
    try:
        run_state_machine_as_test(hypothesis_seed(seed)(machine), settings=chosen)
    finally:
        loop.close()
    return int(machine.kills)


def test_a_killed_server_does_what_the_model_says(tmp_path: Path, seed: int) -> None:
    with ServerProcess(tmp_path / "data", "--drain-s", "0.1") as server:
        assert run(server, seed, RUNS, STEPS) >= RUNS


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_killed_server_does_what_the_model_says_for_long(tmp_path: Path, seed: int) -> None:
    with ServerProcess(tmp_path / "data", "--drain-s", "0.1") as server:
        assert run(server, seed, RUNS_LONG, STEPS_LONG) >= RUNS_LONG
