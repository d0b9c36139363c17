"""A run over two nodes, told from outside: launched, looked at, asked, reached into, moved, stopped, cleaned up."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ecumene.client import EventFilter, EventType, connect

from tests.journey.conftest import RunningServer
from tests.unit.agent_runtime.stage import WAKE, write_agents

AGENTS = 60
RUN = "monday"


class Nodes:
    """Node processes, ended by their pid."""

    def __init__(self, server: str, folder: Path) -> None:
        self.server = server
        self.folder = folder
        self.processes: dict[str, subprocess.Popen[str]] = {}

    def start(self, name: str, *arguments: str) -> None:
        command = [sys.executable, "-m", "ecumene.cli", "runtime", "--server", self.server, "--name", name]
        command += ["--scratch", str(self.folder), "--records", str(self.folder), *arguments]
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        self.processes[name] = process
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["state"] == "ready"

    def stop(self, name: str) -> int:
        process = self.processes.pop(name)
        process.terminate()
        try:
            return process.wait(30)
        finally:
            assert process.stdout is not None
            process.stdout.close()


@pytest.fixture
def nodes(server: RunningServer, tmp_path: Path) -> Iterator[Nodes]:
    started = Nodes(server.address, tmp_path)
    yield started
    for name in list(started.processes):
        started.stop(name)


def test_a_run_over_two_nodes(server: RunningServer, nodes: Nodes, tmp_path: Path) -> None:
    nodes.start("a", "--label", "zone=x")
    nodes.start("b")
    listed = read(server, "nodes", "list")
    assert [(node["name"], node["labels"]) for node in listed] == [("a", {"zone": "x"}), ("b", {})]
    asyncio.run(make_game(server.address))

    launched = read(server, "nodes", "launch", str(write_launch(tmp_path)))
    assert {one["node"]: one["agents"] for one in launched} == {"a": AGENTS // 2 + AGENTS, "b": AGENTS // 2}
    shown = read(server, "nodes", "show", "b")
    assert {part["condition"] for part in shown["runs"][0]["parts"]} == {"live"}
    assert asyncio.run(play_round(server.address)) == 2 * AGENTS

    told = read(server, "interview", RUN, "rule-7", "What do you think of the others?")
    assert told["status"] == "rule" and "decides by the rule level-k" in told["text"]
    told = read(server, "interview", RUN, "poet-9", "What do you feel?")
    assert (told["status"], told["text"]) == ("ok", "poet-9 was asked: What do you feel?")
    assert told["state_hash_before"] == told["state_hash_after"] != ""

    question = ("--ask", "mood:integer:How do you feel, 0 to 10?", "--ask", "vote:yes|no:Will you vote?")
    rows = read(server, "survey", RUN, *question, "--count", "40", "--seed", "3")
    assert len(rows) == 40 == len({row["agent"] for row in rows})
    assert {row["status"] for row in rows} == {"ok", "rule"}
    assert {json.dumps(row["answers"]) for row in rows if row["status"] == "ok"} == {'{"mood": 7, "vote": "yes"}'}
    text = call(server, "survey", RUN, *question, "--count", "40", "--seed", "3", "--csv").stdout
    assert [row["agent"] for row in csv.DictReader(io.StringIO(text))] == [row["agent"] for row in rows]

    read(server, "intervene", "mute", RUN, "rule-0", "--actor", "ann", "--comment", "too loud")
    assert asyncio.run(play_round(server.address)) == 2 * AGENTS - 1
    assert [note["kind"] for note in asyncio.run(read_notes(server.address))] == ["mute"]

    given = read(server, "nodes", "drain", "a")
    assert sum(part["span"]["end_row"] - part["span"]["first_row"] for part in given) == AGENTS // 2 + AGENTS
    wait_agents(server, "b", 2 * AGENTS)
    assert nodes.stop("a") == 0
    assert asyncio.run(play_round(server.address)) == 2 * AGENTS - 1

    reach = ("intervene", "invoke", RUN, "/game", "--actor", "ann")
    opened = read(server, *reach, "open_round", "participants=1", "deadline_ms=0")["result"]
    closed = read(server, *reach, "close_round", "--args", json.dumps({"generation": opened["generation"]}))["result"]
    assert closed["round"] == opened["round"] == 4

    assert "stopped monday: 120 agents" in call(server, "nodes", "stop", RUN).stdout
    assert call(server, "nodes", "clean-up", RUN).stdout == "cleaned up monday\n"
    assert call(server, "nodes", "clean-up", RUN).stdout == "nothing is left of monday\n"
    assert asyncio.run(count_left(server.address)) == ([], 1)
    assert nodes.stop("b") == 0
    assert asyncio.run(count_left(server.address)) == ([], 0)


def test_what_cannot_be_is_said_in_a_line(server: RunningServer, nodes: Nodes, tmp_path: Path) -> None:
    spec = str(write_launch(tmp_path))
    refused = call(server, "nodes", "launch", spec, code=1)
    assert refused.stderr == "ecumene: no node lives in world main: start one with ecumene runtime\n"
    nodes.start("a", "--capacity", "10")
    refused = call(server, "nodes", "launch", spec, code=1)
    assert refused.stderr == "ecumene: group rules: no node lives and has room for 30 agents\n"
    refused = call(server, "interview", RUN, "x", "Well?", code=1)
    assert refused.stderr == "ecumene: no node of world main hosts a run 'monday'\n"
    refused = call(server, "survey", RUN, "--ask", "mood", code=2)
    assert "NAME:TYPE:TEXT" in refused.stderr
    refused = call(server, "nodes", "show", "c", code=1)
    assert refused.stderr == "ecumene: no node 'c' lives in world main\n  there are: a\n"


def write_launch(folder: Path) -> Path:
    """Rule agents, and agents that ask a scripted model, each in one part."""
    write_agents(folder / "rules.arrow", [f"rule-{number}" for number in range(AGENTS)])
    write_agents(folder / "poets.arrow", [f"poet-{number}" for number in range(AGENTS)])
    rules = {"name": "rules", "agent": "level-k", "agents": "rules.arrow", "parameters": {"level": 1}, "parts": 2}
    poets = {"name": "poets", "agent": "prompted-player", "agents": "poets.arrow", "model": "m", "parts": 1}
    model = {"provider": "scripted", "answers": "tests.unit.agent_runtime.players:answer_anything"}
    document = {
        "run": RUN,
        "groups": [{**rules, "wake": list(WAKE)}, {**poets, "wake": list(WAKE)}],
        "models": {"m": model},
        "worker": {"stop_timeout_s": 3},
    }
    path = folder / "launch.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def call(server: RunningServer, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Run a command against the server."""
    command = [sys.executable, "-m", "ecumene.cli", *arguments, "--server", server.address]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == code, done.stdout + done.stderr
    return done


def read(server: RunningServer, *arguments: str) -> Any:
    """What a command says as JSON."""
    return json.loads(call(server, *arguments, "--json").stdout)


async def make_game(address: str) -> None:
    async with connect(address) as world:
        await world.environment("/game").register(kind="guess_game")


async def play_round(address: str, participants: int = 2 * AGENTS) -> int:
    """One round; how many reported a number."""
    async with connect(address) as world:
        game = world.environment("/game")
        async with world.watch_frames(EventFilter(path_prefix="/game", types=(EventType.GATE_OPENED,))) as watch:
            opened: Any = await game.invoke("open_round", participants=participants)
            await asyncio.wait_for(anext(watch), 20)
        closed: Any = await game.invoke("close_round", generation=opened["generation"])
        return int(closed["reported"])


async def read_notes(address: str) -> list[Any]:
    async with connect(address) as world:
        return [entry.value async for entry in world.environment(f"/runtime/runs/{RUN}/interventions").entries()]


def wait_agents(server: RunningServer, node: str, agents: int) -> None:
    """Until a node hosts so many, all live."""
    deadline_s = time.monotonic() + 40
    while time.monotonic() < deadline_s:
        runs = read(server, "nodes", "show", node)["runs"]
        if sum(run["agents"] for run in runs) == agents:
            return
    pytest.fail(f"node {node} does not host {agents} agents")


async def count_left(address: str) -> tuple[list[str], int]:
    """Runs that are kept, and leases that live."""
    async with connect(address) as world:
        runs = [child.path async for child in world.environment("/runtime/runs").children()]
        return runs, len(await world.leases())
