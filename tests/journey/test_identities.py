"""An agent is one agent everywhere: each place that names it says the same of it, whatever order it stands in.

Case 9: two exports ordered agents differently, and an interview hit the wrong one. Here many people share a name, and
what a model answers shows who was asked.
"""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from ecumene.client import connect
from ecumene.launch.asking import interview_agent

from tests.faults.run_processes import RunProcess, find_run
from tests.journey.conftest import RunningServer
from tests.model_endpoint import ModelEndpoint, Reply

AGENTS, ROUNDS = 36, 2
NAMES = ("Zoë Größe", "Ann Lee", "李娜")
PASSPORT = re.compile(r"passport (\d+)")
TABLES = ("turns", "actions", "surveys")


def tell_who(request: dict[str, Any]) -> Reply:
    """Answers with the passport of the persona that was asked, within whatever shape is asked for."""
    text = "\n".join(message["content"] for message in request["messages"])
    seen = set(PASSPORT.findall(text))
    assert len(seen) == 1, f"a prompt is about one person: {seen}"
    (passport,) = seen
    form = (request.get("response_format") or {}).get("json_schema", {}).get("schema", {}).get("properties", {})
    fields = {name: float(passport) if each.get("type") == "number" else passport for name, each in form.items()}
    return Reply(json.dumps(fields) if form else passport)


def write_spec(folder: Path, endpoint: str) -> Path:
    """People with few names and a passport each, one of the numbers from 1 on, in groups that are mixed."""
    rows = [f"{NAMES[number % 3]},{number}" for number in range(1, AGENTS + 1)]
    (folder / "people.csv").write_text("\n".join(["who,passport", *rows]), encoding="utf-8")
    asked = {"agent": "prompted", "persona": "You are {name}, passport {passport}.", "count": AGENTS // 3}
    own = {"agent": "tests.journey.passport_players:PassportPlayer", "count": AGENTS // 3}
    question = {"name": "who", "text": "Which passport do you have?"}
    spec = {
        "name": "who",
        "seed": 3,
        "population": {
            "groups": [{"name": "a", **asked}, {"name": "own", **own}, {"name": "b", **asked}],
            "tables": [{"file": str(folder / "people.csv"), "columns": {"who": "name", "passport": "passport"}}],
            "networks": {"friends": {"homophily": {"by": ["name"], "alike": 1, "neighbours": 3}}},
        },
        "game": {"rounds": ROUNDS, "deadline_s": 120},
        "model": {"provider": "openai", "name": "who", "endpoint": endpoint},
        "surveys": [{"name": "all", "at": "every_round", "groups": ["a", "b"], "questions": [question]}],
        "interviews": [{"name": "some", "groups": ["b", "a"], "per_group": 2, "questions": ["Who are you?"]}],
        "recording": {"directory": str(folder / "runs"), "bodies": True},
    }
    path = folder / "spec.yaml"
    path.write_text(json.dumps(spec, ensure_ascii=False), encoding="utf-8")
    return path


async def command(*arguments: str) -> None:
    running = await RunProcess.start(*arguments)
    assert await running.wait() == 0, running.errors


def read_export(path: Path) -> list[dict[str, str]]:
    """Rows of either format, as text."""
    text = path.read_text(encoding="utf-8-sig")
    rows = (
        list(csv.DictReader(text.splitlines()))
        if path.suffix == ".csv"
        else [json.loads(line) for line in text.splitlines()]
    )
    return [{name: "" if value is None else str(value) for name, value in row.items()} for row in rows]


@pytest.mark.timeout(180)
async def test_an_id_names_the_same_person_in_all_tables_files_prompts_and_answers(tmp_path: Path) -> None:
    async with ModelEndpoint(tell_who) as endpoint:
        spec = write_spec(tmp_path, endpoint.base_url)
        await command("run", str(spec), "--workers", "3")
    assert not endpoint.complaints
    directory = find_run(tmp_path)
    people = {row["agent"]: row for row in pq.read_table(directory / "profiles.parquet").to_pylist()}
    assert len(people) == AGENTS == len({row["passport"] for row in people.values()})
    assert {row["name"] for row in people.values()} == set(NAMES), "many share a name, none an id"

    await command("population", str(spec), "--out", str(tmp_path / "drawn.csv"))
    drawn = {row["agent"]: row for row in read_export(tmp_path / "drawn.csv")}
    assert drawn == {agent: {name: str(value) for name, value in row.items()} for agent, row in people.items()}

    for group in ("a", "own", "b"):
        with pa.memory_map(str(directory / "launch" / f"{group}.arrow")) as file:
            for row in pa.ipc.open_file(file).read_all().to_pylist():
                known = people[row["agent_id"]]
                assert (group, row["name"], row["passport"]) == (known["group"], known["name"], known["passport"])

    passports = {agent: float(row["passport"]) for agent, row in people.items()}
    reports = (
        ds.dataset(directory / "actions").to_table(columns=["agent", "group", "round", "value_double"]).to_pylist()
    )
    assert {(row["agent"], row["round"]): row["value_double"] for row in reports} == {
        (agent, number): passport for agent, passport in passports.items() for number in range(1, ROUNDS + 1)
    }, "what each agent says is its own"
    assert all(row["group"] == people[row["agent"]]["group"] for row in reports)

    calls = ds.dataset(directory / "calls").to_table(columns=["agent", "request_json"]).to_pylist()
    assert len(calls) == ROUNDS * AGENTS * 2 // 3
    for call in calls:
        assert set(PASSPORT.findall(call["request_json"])) == {str(people[call["agent"]]["passport"])}

    answers = ds.dataset(directory / "surveys").to_table().to_pylist()
    assert len(answers) == ROUNDS * AGENTS * 2 // 3 + 4
    for answer in answers:
        assert answer["answer_text"] == str(people[answer["agent"]]["passport"]), answer
        assert answer["group"] == people[answer["agent"]]["group"]

    edges = pq.read_table(directory / "networks" / "friends.parquet").to_pylist()
    assert edges and all(people[edge["from"]]["name"] == people[edge["to"]]["name"] for edge in edges)

    for told in json.loads((directory / "summary.json").read_text(encoding="utf-8"))["rounds"]:
        assert {passports[agent] for agent in told["winners"]} == {told["winner_number"]}
    await check_exports(tmp_path, directory, people)


async def check_exports(folder: Path, directory: Path, people: dict[str, Any]) -> None:
    """Both formats have the same rows in the same order."""
    for file_format in ("csv", "json"):
        await command("export", str(directory), "--format", file_format, "--out", str(folder / file_format))
    for table in TABLES:
        rows, same = (
            read_export(path) for path in (folder / "csv" / f"{table}.csv", folder / "json" / f"{table}.jsonl")
        )
        assert [(row["agent"], row["group"]) for row in rows] == [(row["agent"], row["group"]) for row in same]
        assert all(row["group"] == people[row["agent"]]["group"] for row in rows)
        assert {row["agent"] for row in rows} <= people.keys()


@pytest.mark.timeout(120)
async def test_an_interview_reaches_whom_it_names_while_a_run_plays(tmp_path: Path, server: RunningServer) -> None:
    reached = 0
    async with ModelEndpoint(tell_who) as endpoint:
        spec = write_spec(tmp_path, endpoint.base_url)
        document = json.loads(spec.read_text(encoding="utf-8")) | {"world": "main", "game": {"rounds": 500}}
        spec.write_text(json.dumps(document), encoding="utf-8")
        running = await RunProcess.start("run", str(spec), "--server", server.address, "--workers", "3")
        try:
            assert await running.wait_line("round 1:"), running.errors
            directory = find_run(tmp_path)
            people = {row["agent"]: row for row in pq.read_table(directory / "profiles.parquet").to_pylist()}
            async with connect(server.address, "main") as world:
                for agent in sorted(people, reverse=True):
                    if people[agent]["group"] != "own":
                        told = await interview_agent(world, directory.name, agent, "Who are you?")
                        assert (told.agent, told.text) == (agent, str(people[agent]["passport"]))
                        reached += 1
        finally:
            await running.kill()
    assert reached == AGENTS * 2 // 3
