"""Runs that ask their agents: killed while they ask and gone on with, and the same run as without any question."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.faults.run_processes import RunProcess, digest_own_world, find_run, read_rows, write_spec

RULE, PROMPTED, ROUNDS = 5, 25, 2
ID = ("survey", "moment", "round", "agent", "question")
SURVEYS = [
    {"name": "first", "at": "before", "questions": [{"name": "mean", "type": "number", "text": "Which mean?"}]},
    {"name": "second", "at": "before", "questions": [{"name": "why", "text": "Warum – und wie?"}]},
    {
        "name": "third",
        "at": "every_round",
        "sample": 8,
        "panel": "fresh",
        "questions": [
            {"name": "liked", "type": "scale", "text": "How much did you like it?"},
            {"name": "again", "type": "boolean", "text": "Again?"},
        ],
    },
]
INTERVIEWS = [{"name": "talk", "at": {"after_rounds": [2]}, "per_group": 2, "questions": ["Why?"]}]


def write(folder: Path, **more: Any) -> Path:
    folder.mkdir()
    return write_spec(folder, rule=RULE, prompted=PROMPTED, rounds=ROUNDS, **more)


async def live(*arguments: str) -> str:
    """A whole life of a run; returns what it said."""
    running = await RunProcess.start(*arguments)
    assert await running.wait() == 0, running.errors
    return running.errors


@pytest.mark.timeout(240)
async def test_a_run_that_is_killed_while_it_asks_goes_on_and_is_the_run_without_questions(tmp_path: Path) -> None:
    plain, asking = write(tmp_path / "plain"), write(tmp_path / "asking", surveys=SURVEYS, interviews=INTERVIEWS)
    await live("run", str(plain))

    lines = ("survey second, before the first round: asking", "round 1:", "survey third, after round 2: asking")
    running = await RunProcess.start("run", str(asking))
    said = ""
    for line in lines:
        assert await running.wait_line(line), running.errors
        await running.kill()
        said += running.errors
        running = await RunProcess.start("resume", str(find_run(tmp_path / "asking")))
    assert await running.wait() == 0, running.errors
    said += running.errors

    directory = find_run(tmp_path / "asking")
    assert said.count("survey first, before the first round: asking") == 1
    rows = await asyncio.to_thread(read_rows, directory, "surveys", (*ID, "status", "group"))
    assert len({tuple(row[name] for name in ID) for row in rows}) == len(rows), "somebody was asked twice"
    asked = Counter((row["survey"], row["moment"], row["round"]) for row in rows)
    assert asked == {
        ("first", "before", None): RULE + PROMPTED,
        ("second", "before", None): RULE + PROMPTED,
        ("third", "after_round", 1): 16,
        ("third", "after_round", 2): 16,
        ("talk", "after_round", 2): 4,
    }
    assert {(row["group"], row["status"]) for row in rows} == {("rule", "unsupported"), ("asked", "ok")}
    manifest = json.loads((directory / "manifest.json").read_text(encoding="utf-8"))
    assert (manifest["state"], manifest["counts"]["surveys"]) == ("done", len(rows))
    assert not (directory / ".node").exists()
    assert str(await digest_own_world(directory)) == str(await digest_own_world(find_run(tmp_path / "plain")))


@pytest.mark.timeout(120)
async def test_a_budget_that_is_spent_ends_a_survey_and_a_larger_one_goes_on_with_it(tmp_path: Path) -> None:
    spec = write(tmp_path / "poor", surveys=SURVEYS[:1], budget={"tokens_max": 400})
    running = await RunProcess.start("run", str(spec))
    assert await running.wait() == 3, running.errors
    directory = find_run(tmp_path / "poor")
    before = {row["agent"] for row in await asyncio.to_thread(read_rows, directory, "surveys", ("agent",))}
    said = await live("resume", str(directory), "--tokens-max", "1000000")
    assert "survey first, before the first round: asking" in said
    rows = await asyncio.to_thread(read_rows, directory, "surveys", ("agent", "status", "group"))
    assert len(rows) == len({row["agent"] for row in rows}) == RULE + PROMPTED
    assert before < {row["agent"] for row in rows}
    assert {row["status"] for row in rows if row["group"] == "asked"} == {"ok"}, "nobody was passed over for the budget"
