"""One spec and seed, one outcome: whatever number of workers plays it, and however often all of it is killed.

Case 39: the same seed gave different results, and replicates with different seeds the same one. The run here has all
that could bring in an order: attributes by table and template, networks, rule agents, agents with code and memory,
agents with a model, surveys with samples at all moments, and interventions that reach samples of agents.
"""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq
import pytest
from ecumene.client.records import TURNS, list_parts

from tests.faults.run_processes import RunProcess, digest_own_world, find_run, read_rows
from tests.faults.test_killed_interventions import read_notes

SAMPLE = """years,school,job,weight
19,hauptschule,none,2
34,gymnasium,Bäcker,1
52,universität,医師,1.5
70,keine,rentner,1
"""
PAIRS, MEMBERS, ROUNDS = 2, 4, 3
ANSWER_COLUMNS = ("survey", "moment", "round", "agent", "group", "question", "answer_text", "answer_number", "status")
MOMENTS = (
    "survey before, before the first round: asking",
    "round 1:",
    "survey each, after round 1: asking",
    "survey each, after round 1 is remembered",
    "intervention said,",
    "round 2:",
    "interviews talk, after round 2: asking",
    "intervention rest,",
    "round 3:",
    "survey last, after the last round: asking",
)


class Outcome(NamedTuple):
    """What a run came to, without when and where."""

    digest: str
    profiles: dict[str, list[Any]]
    friends: dict[str, list[Any]]
    answers: list[tuple[Any, ...]]
    interventions: list[dict[str, Any]]


def describe(folder: Path, *, seed: int = 11, pairs: int = PAIRS, members: int = MEMBERS) -> dict[str, Any]:
    """A spec: `pairs` times three groups, each a part of its own, so that as many workers have something to do."""
    groups: list[dict[str, Any]] = []
    for pair in range(pairs):
        saver = {"agent": "tests.faults.profiled_agents:Saver", "count": members}
        asked = {"agent": "prompted", "count": members, "persona": "You are {age} and work as {job}."}
        noisy = {"agent": "noisy-level-k", "count": members, "parameters": {"level": 1, "deviation": 4}}
        groups += [
            {"name": f"{name}-{pair}", **fields}
            for name, fields in (("saver", saver), ("asked", asked), ("rule", noisy))
        ]
    (folder / "sample.csv").write_text(SAMPLE, encoding="utf-8")
    listeners = [group["name"] for group in groups if not group["name"].startswith("rule")]
    columns = {"years": "age", "school": "school", "job": "job"}
    some = {"sample": 2 * members}
    scale = {"name": "liked", "type": "scale", "text": "Wie war's?"}
    return {
        "name": "digest",
        "seed": seed,
        "population": {
            "groups": groups,
            "tables": [{"file": str(folder / "sample.csv"), "columns": columns, "weight": "weight"}],
            "attributes": {"gender": {"template": "gender"}, "wage": {"lognormal": {"median": 30_000, "sigma": 0.6}}},
            "constraints": [{"never": {"age": {"below": 20}, "gender": "male"}}],
            "networks": {"friends": {"homophily": {"by": ["gender"], "alike": 0.7, "neighbours": 2}}},
        },
        "game": {"rounds": ROUNDS, "deadline_s": 300},
        "model": {"provider": "scripted", "max_tokens": 64, "latency": {"kind": "uniform", "high_ms": 80}},
        "surveys": [
            {"name": "before", "at": "before", "questions": [{"name": "mean", "type": "number", "text": "Mean?"}]},
            {"name": "each", "at": "every_round", "remembered": True, "questions": [scale], **some, "panel": "fresh"},
            {"name": "last", "at": "after", **some, "questions": [{"name": "why", "text": "Why?"}]},
        ],
        "interviews": [{"name": "talk", "at": {"after_rounds": [2]}, "per_group": 1, "questions": ["Why?"]}],
        "interventions": [
            {"name": "said", "after_round": 1, "tell": {"text": "Nur Mut!", "groups": listeners, "sample": members}},
            {"name": "half", "before_round": 3, "rules": {"ratio": "1/2"}},
            {"name": "rest", "before_round": 3, "pause": {"sample": members}},
            {"name": "news", "when": {"figure": "mean", "below": 99}, "set": {"path": "/t", "key": "k", "value": "数"}},
        ],
        "recording": {"directory": str(folder / "runs")},
    }  # fmt: skip


def write(folder: Path, **sizes: int) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "spec.yaml"
    path.write_text(json.dumps(describe(folder, **sizes)), encoding="utf-8")
    return path


async def read_outcome(folder: Path) -> Outcome:
    directory = find_run(folder)
    answers = [tuple(row.values()) for row in await asyncio.to_thread(read_rows, directory, "surveys", ANSWER_COLUMNS)]
    return Outcome(
        str(await digest_own_world(directory)),
        pq.read_table(directory / "profiles.parquet").to_pydict(),
        pq.read_table(directory / "networks" / "friends.parquet").to_pydict(),
        sorted(answers, key=repr),
        read_notes(directory),
    )


async def play(folder: Path, workers: int, **sizes: int) -> Outcome:
    """A whole run; as many workers as are named take part in it."""
    running = await RunProcess.start("run", str(write(folder, **sizes)), "--workers", str(workers))
    assert await running.wait(300) == 0, running.errors
    assert count_writers(find_run(folder)) == workers
    return await read_outcome(folder)


def count_writers(directory: Path) -> int:
    """Workers that took turns of a run."""
    return len({part.name.rpartition("-")[0] for part in list_parts(directory, TURNS)})


async def play_killed(folder: Path, moments: tuple[str, ...], workers: tuple[int, ...], **sizes: int) -> Outcome:
    """A run whose processes are killed at each of some moments and gone on with by another number of workers."""
    command = ["run", str(write(folder, **sizes))]
    for number, moment in enumerate(moments):
        running = await RunProcess.start(*command, "--workers", str(workers[number % len(workers)]))
        assert await running.wait_line(moment), running.errors
        await running.kill()
        command = ["resume", str(find_run(folder))]
    running = await RunProcess.start(*command)
    assert await running.wait(300) == 0, running.errors
    return await read_outcome(folder)


@pytest.mark.timeout(240)
async def test_workers_and_kills_change_nothing(tmp_path: Path) -> None:
    one = await play(tmp_path / "one", 1)
    assert {note["name"] for note in one.interventions} == {"news", "said", "half", "rest"}
    assert {answer[0] for answer in one.answers} == {"before", "each", "last", "talk"}
    assert await play(tmp_path / "four", 4) == one
    assert await play_killed(tmp_path / "killed", (MOMENTS[6],), (4,)) == one


@pytest.mark.long
@pytest.mark.timeout(1_200)
async def test_a_larger_run_is_the_same_on_1_4_and_16_workers_and_over_kills_at_all_moments(
    tmp_path: Path, seed: int
) -> None:
    sizes = {"pairs": 6, "members": 50}
    one = await play(tmp_path / "one", 1, **sizes)
    for workers in (4, 16):
        assert await play(tmp_path / str(workers), workers, **sizes) == one, workers
    assert await play_killed(tmp_path / "all", MOMENTS, (16, 1, 4), **sizes) == one
    some = tuple(sorted(random.Random(seed).sample(MOMENTS, 4), key=MOMENTS.index))
    assert await play_killed(tmp_path / "some", some, (4, 16), **sizes) == one
    other = await play(tmp_path / "other", 4, seed=12, **sizes)
    assert all(mine != theirs for mine, theirs in zip(one[:4], other[:4], strict=True)), "another seed, another run"
