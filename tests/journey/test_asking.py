"""A thousand living agents with memories are asked, from the command line: a row each, and nobody is changed by it."""

from __future__ import annotations

import asyncio
import csv
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from ecumene.client import connect
from ecumene.client.records import digest_state
from ecumene.client.runtime_model import AnswerStatus
from ecumene.launch.asking import interview_agent

from tests.journey.conftest import RunningServer
from tests.journey.test_nodes import RUN, Nodes, call, make_game, play_round, read
from tests.unit.agent_runtime.stage import WAKE, write_agents

KEEPERS, RULES = 900, 100
ASK = ("--ask", "mood:integer:How do you feel, 0 to 10?", "--ask", "again:yes|no:Once more?")
INTERVIEWED = ("keeper-1", "keeper-450", "rule-99")


def write_launch(folder: Path) -> Path:
    """Agents that remember what they saw and answer by a model, in three parts; and agents that decide by a rule."""
    write_agents(folder / "keepers.arrow", [f"keeper-{number}" for number in range(KEEPERS)])
    write_agents(folder / "rules.arrow", [f"rule-{number}" for number in range(RULES)])
    players = "tests.unit.agent_runtime.players"
    keepers = {"name": "keepers", "agent": f"{players}:NoteKeeper", "agents": "keepers.arrow", "model": "m", "parts": 3}
    rules = {"name": "rules", "agent": "level-k", "agents": "rules.arrow", "parameters": {"level": 1}, "parts": 1}
    document = {
        "run": RUN,
        "groups": [{**keepers, "wake": list(WAKE)}, {**rules, "wake": list(WAKE)}],
        "models": {"m": {"provider": "scripted", "answers": f"{players}:answer_often"}},
        "worker": {"stop_timeout_s": 3},
    }
    path = folder / "launch.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


async def interview(address: str) -> dict[str, str]:
    """Asks some agents; returns the hash of the state of each, which must be the same before and after."""
    hashes = {}
    async with connect(address) as world:
        for agent in INTERVIEWED:
            told = await interview_agent(world, RUN, agent, "What did you see?")
            assert told.status is (AnswerStatus.RULE if agent.startswith("rule") else AnswerStatus.OK)
            assert told.state_hash_before == told.state_hash_after != ""
            hashes[agent] = told.state_hash_after
    return hashes


async def digest(address: str) -> str:
    """Of everything in the world but the books of its nodes."""
    async with connect(address) as world:
        return await digest_state(world)


@pytest.mark.timeout(240)
def test_a_thousand_are_asked_each_has_a_row_and_nobody_is_changed(server: RunningServer, tmp_path: Path) -> None:
    nodes = Nodes(server.address, tmp_path)
    try:
        nodes.start("a")
        asyncio.run(make_game(server.address))
        read(server, "nodes", "launch", str(write_launch(tmp_path)))
        fresh = asyncio.run(interview(server.address))
        assert asyncio.run(play_round(server.address, KEEPERS + RULES)) == KEEPERS + RULES
        world_before = asyncio.run(digest(server.address))
        before = asyncio.run(interview(server.address))
        assert [agent for agent in INTERVIEWED if before[agent] != fresh[agent]] == ["keeper-1", "keeper-450"]

        shown = call(server, "survey", RUN, *ASK, "--count", "1000", "--out", str(tmp_path / "table.csv"))
        assert shown.stdout == (
            f"810 of 1,000 agents answered; 100 rule, 90 parse_error; table: {tmp_path / 'table.csv'}\n"
        )
        with (tmp_path / "table.csv").open(encoding="utf-8", newline="") as file:
            check_table(list(csv.DictReader(file)))
        rows = read(server, "survey", RUN, *ASK, "--count", "1000", "--out", str(tmp_path / "table.parquet"))
        table = pq.read_table(tmp_path / "table.parquet")
        assert [str(one.type) for one in table.schema] == ["string", "string", "string", "int64", "string", "string"]
        assert table.column("agent").to_pylist() == [row["agent"] for row in rows]
        check_table([{k: "" if v is None else str(v) for k, v in row.items()} for row in table.to_pylist()])

        told = read(server, "interview", RUN, INTERVIEWED[0], "What did you see?")
        assert told["state_hash_before"] == told["state_hash_after"] == before[INTERVIEWED[0]]
        assert asyncio.run(interview(server.address)) == before
        assert asyncio.run(digest(server.address)) == world_before
        assert nodes.stop("a") == 0
    finally:
        for name in list(nodes.processes):
            nodes.stop(name)


def check_table(rows: list[dict[str, Any]]) -> None:
    """A row for each agent, with its status, and answers where it is `ok`."""
    everybody = {f"keeper-{n}" for n in range(KEEPERS)} | {f"rule-{n}" for n in range(RULES)}
    assert len(rows) == 1000 and {row["agent"] for row in rows} == everybody
    assert Counter(row["status"] for row in rows) == {"ok": 810, "rule": 100, "parse_error": 90}
    for row in rows:
        group, _, number = row["agent"].partition("-")
        refuses = group == "keeper" and int(number) % 10 == 0
        assert row["status"] == ("rule" if group == "rule" else "parse_error" if refuses else "ok")
        assert (row["group"], bool(row["reason"])) == (f"{group}s", row["status"] != "ok")
        assert (row["mood"], row["again"]) == (("7", "yes") if row["status"] == "ok" else ("", ""))


def test_what_cannot_be_asked_or_written_is_said_in_a_line(server: RunningServer, tmp_path: Path) -> None:
    refused = call(server, "survey", RUN, *ASK, "--out", str(tmp_path / "table.txt"), code=2)
    assert refused.stderr.splitlines()[1:] == ["  let it end with .csv or .parquet"]
    refused = call(server, "survey", RUN, *ASK, "--out", str(tmp_path / "nowhere" / "table.csv"), code=2)
    assert refused.stderr == f"ecumene: there is no folder {tmp_path / 'nowhere'}\n"
    refused = call(server, "survey", RUN, "--ask", "status:text:How are you?", code=2)
    assert refused.stderr == "ecumene: no question can be called status: the table has such a column already\n"
