"""`ecumene run --nodes`: its conductor is killed, its budget is spent, and it comes to what it would have come to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from ecumene.client import connect
from ecumene.client.records import RunState, read_manifest
from ecumene.launch.node_runs import inspect_nodes
from ecumene.launch.run_spending import read_spending

from tests.faults.run_processes import WORLD, RunProcess, digest_own_world, digest_run, find_run, read_rows, write_spec
from tests.journey.test_nodes import Nodes
from tests.services import ServerProcess

RULE, PROMPTED, ROUNDS = 30, 8, 3
BUDGET = 1_000
"""Of tokens: for the first round, and a part of the second."""
STAGES = ("launching the agents", "38 agents play", "round 1:")


def write(folder: Path, **more: object) -> Path:
    """The spec that is played here, on nodes or not."""
    folder.mkdir()
    return write_spec(folder, rule=RULE, prompted=PROMPTED, rounds=ROUNDS, **more)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path / "data") as running:
        yield running


@pytest.fixture
def nodes(server: ServerProcess, tmp_path: Path) -> Iterator[Nodes]:
    started = Nodes(server.address, tmp_path)
    try:
        for name in ("a", "b"):
            started.start(name)
        yield started
    finally:
        for name in list(started.processes):
            started.stop(name)


@pytest.mark.timeout(600)
async def test_wherever_its_conductor_is_killed_a_run_over_nodes_comes_to_the_same(
    tmp_path: Path, server: ServerProcess, nodes: Nodes
) -> None:
    alone = await RunProcess.start("run", str(write(tmp_path / "alone")))
    assert await alone.wait() == 0, alone.errors
    spec = write(tmp_path / "over", world=WORLD)
    command = ["run", str(spec), "--server", server.address, "--nodes"]
    for stage in STAGES:
        running = await RunProcess.start(*command)
        assert await running.wait_line(stage), running.errors
        await running.kill()
        command = ["resume", str(find_run(tmp_path / "over"))]
    stopped = await RunProcess.start(*command, "--tokens-max", str(BUDGET))
    assert await stopped.wait() == 3, stopped.errors
    directory = find_run(tmp_path / "over")
    assert read_manifest(directory).state is RunState.STOPPED_BY_BUDGET
    async with connect(server.address, WORLD) as world:
        assert [info.agents for info in await inspect_nodes(world)] == [0, 0]
        assert (await read_spending(world, directory.name)).tokens > 0
        more = await RunProcess.start(*command, "--tokens-max", "100000")
        assert await more.wait() == 0, more.errors
        assert [info.agents for info in await inspect_nodes(world)] == [0, 0]
    assert await digest_run(directory, server.address, WORLD) == await digest_own_world(find_run(tmp_path / "alone"))
    sources = {part.name.rpartition("-")[0] for part in (directory / "turns").iterdir()}
    assert {source.partition(".")[0] for source in sources} == {"a", "b"}
    assert len({(row["agent"], row["turn"]) for row in read_rows(directory, "turns", ["agent", "turn"])}) == 38 * 3


async def test_without_a_node_a_run_over_nodes_says_what_to_start(tmp_path: Path, server: ServerProcess) -> None:
    running = await RunProcess.start("run", str(write(tmp_path / "over")), "--server", server.address, "--nodes")
    assert await running.wait() == 1
    assert "no node lives in world main: start one with ecumene runtime" in running.errors
