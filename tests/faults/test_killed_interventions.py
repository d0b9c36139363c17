"""Runs that intervene: killed around their interventions they come to the same end as without a kill."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ecumene.client import connect

from tests.faults.run_processes import RunProcess, digest_own_world, find_run, read_rows, write_spec
from tests.services import ServerProcess

RULE, PROMPTED, ROUNDS = 10, 15, 4
INTERVENTIONS = [
    {
        "name": "news",
        "after_round": 1,
        "set": {"path": "/town/news", "key": "tax", "value": {"rate": 0.2, "für": "数"}},
    },
    {"name": "said", "after_round": 1, "tell": {"text": "Größer – nur Mut!", "groups": ["asked"], "sample": 5}},
    {"name": "half", "before_round": 2, "rules": {"ratio": "1/2"}},
    {"name": "rest", "before_round": 2, "pause": {"groups": ["rule"], "sample": 4}},
    {"name": "gone", "when": {"figure": "mean", "below": 100}, "delete": {"path": "/town/old", "key": "nothing"}},
    {"name": "never", "when": {"entry": {"path": "/nowhere", "key": "x"}, "above": 0}, "rules": {"offset": 5}},
    {"name": "back", "after_round": 3, "resume": {"groups": ["rule"]}},
]


def write(folder: Path) -> Path:
    folder.mkdir()
    recording = {"directory": str(folder / "runs"), "bodies": True}
    more = {"interventions": INTERVENTIONS, "recording": recording}
    return write_spec(folder, rule=RULE, prompted=PROMPTED, rounds=ROUNDS, **more)


def read_notes(directory: Path) -> list[dict[str, Any]]:
    notes: list[dict[str, Any]] = json.loads((directory / "interventions.json").read_text(encoding="utf-8"))
    return [{name: note[name] for name in note if name != "revision"} for note in notes]


@pytest.mark.timeout(300)
async def test_each_happens_once_whatever_is_killed_when(tmp_path: Path) -> None:
    whole, killed = write(tmp_path / "whole"), write(tmp_path / "killed")
    running = await RunProcess.start("run", str(whole))
    assert await running.wait() == 0, running.errors
    expected = find_run(tmp_path / "whole")

    running = await RunProcess.start("run", str(killed))
    for line in ("intervention news,", "intervention said,", "intervention rest,", "round 2:", "intervention back,"):
        assert await running.wait_line(line), running.errors
        await running.kill()
        running = await RunProcess.start("resume", str(find_run(tmp_path / "killed")))
    assert await running.wait() == 0, running.errors
    directory = find_run(tmp_path / "killed")

    assert read_notes(directory) == read_notes(expected)
    assert [note["name"] for note in read_notes(directory)] == ["news", "said", "gone", "half", "rest", "back"]
    assert str(await digest_own_world(directory)) == str(await digest_own_world(expected))
    turns = read_rows(directory, "turns", ("agent", "round", "status"))
    muted = [row for row in turns if row["status"] == "cancelled"]
    assert len({row["agent"] for row in muted}) == 4 and {row["round"] for row in muted} == {2, 3}
    sampled: set[str] = set()
    for run in (expected, directory):
        calls = read_rows(run, "calls", ("agent", "turn", "request_json"))
        told = {(call["agent"], call["turn"]): call["request_json"].count("nur Mut!") for call in calls}
        assert set(told.values()) == {0, 1}, "once in a prompt"
        listeners = {agent for (agent, _), times in told.items() if times}
        heard = {turn for (_, turn), times in told.items() if times}
        if run == expected:
            sampled = listeners
            assert len(sampled) == 5 and heard == {2, 3, 4}
        else:  # calls of a life that was killed may not have been recorded
            assert listeners <= sampled and 4 in heard <= {2, 3, 4}
    summary = json.loads((directory / "summary.json").read_text(encoding="utf-8"))
    for row in summary["rounds"]:
        ratio = 2 / 3 if row["round"] == 1 else 1 / 2
        assert row["target"] == pytest.approx(ratio * row["mean"]) == row["told"], "by the rules of its round"
    with ServerProcess(directory / "world") as server:
        manifest = json.loads((directory / "manifest.json").read_text(encoding="utf-8"))
        async with connect(server.address, manifest["world"]) as world:
            assert await world.environment("/town/news").value("tax") == {"rate": 0.2, "für": "数"}
    sets = read_rows(directory, "events", ("path", "key", "cause", "actor", "type"))
    (news,) = [row for row in sets if row["path"] == "/town/news" and row["key"] == "tax"]
    assert (news["cause"], news["actor"]) == ("intervention news", "experiment")
