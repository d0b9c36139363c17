"""The report of a run is complete, honest about rule agents, and valid JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ecumene.client.records import RunState, read_manifest, write_manifest
from ecumene.sim.reporting import report_guess_run
from ecumene.sim.reporting.report import describe_target
from ecumene.sim.specs.game import GameSpec

TURNS = [
    ("agent-000001", 1, "ok", 0.0, True),
    ("agent-000002", 1, "ok", 60.0, True),
    ("agent-000003", 1, "timeout", None, False),
]


def test_a_report_writes_summary_and_plot_into_the_run(record_run: Any) -> None:
    directory = record_run(TURNS)
    report = report_guess_run(directory, told={1: 20.0})
    summary = json.loads((directory / "summary.json").read_text(encoding="utf-8"))
    assert summary == json.loads(json.dumps(report.to_document()))
    assert (directory / summary["plot"]).read_bytes().startswith(b"\x89PNG")
    assert (summary["run"], summary["seed"], summary["state"]) == ("hand-made-1", 11, "done")
    assert summary["population"] == {"agents": 4, "groups": {"all": 4}}
    (row,) = summary["rounds"]
    assert (row["mean"], row["target"], row["told"]) == (30.0, 20.0, 20.0)
    assert (row["reported"], row["failed"], row["turnless"]) == (2, {"timeout": 1}, 1)
    assert summary["turns"] == {"ok": 2, "timeout": 1}
    assert summary["tokens"] == 33


def test_rule_agents_are_never_called_a_reproduction(record_run: Any) -> None:
    directory = record_run(TURNS)
    assert "reproduces nobody" in report_guess_run(directory).note


def test_scripted_answers_are_called_what_they_are(record_run: Any) -> None:
    assert "no model was asked" in report_guess_run(record_run(TURNS, agent="prompted")).note


def test_a_run_that_was_killed_is_reported_as_running(record_run: Any) -> None:
    directory = record_run(TURNS)
    manifest = read_manifest(directory)
    killed = {**{name: getattr(manifest, name) for name in manifest.__slots__}, "state": RunState.RUNNING}
    write_manifest(directory, type(manifest)(**killed))
    assert report_guess_run(directory).to_document()["state"] == "running"


@pytest.mark.parametrize(
    ("ratio", "offset", "text"),
    [
        (2 / 3, 0, "2/3 × mean"),
        (0.5, 5, "1/2 × mean + 5"),
        (0.51, -1.5, "51/100 × mean − 1.5"),
        (0.1234567, 0, "0.123457 × mean"),
    ],
)
def test_a_target_is_written_as_a_formula(ratio: float, offset: float, text: str) -> None:
    assert describe_target(GameSpec(ratio=ratio, offset=offset)) == text
