"""The page of a run is one file, tells all that failed, and shows whatever texts hold as text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ecumene.client.records import EVENTS, SURVEYS, TURNS, RunState, read_manifest
from ecumene.sim.asking.intervention_records import write_interventions
from ecumene.sim.recordings import RecordingError
from ecumene.sim.reporting import write_report
from ecumene.sim.reporting.overview import PAUSED
from ecumene.sim.reporting.run_page import read_told

from tests.unit.ecumene.sim.conftest import make_turn, write_rows
from tests.unit.ecumene.sim.reporting.html_reading import PageReader, read_page

HOSTILE = [
    "<script>alert(1)</script>",
    "'\"><img src=x onerror=alert(1)>",
    "{{ 7 * 7 }}{% raw %}",
    "</table></main>",
    "القاهرة ‮dlrow",
    "Nuku‘alofa",
    "👩‍🚀 東京",
    "&amp;&lt;",
]


def report(directory: Path) -> PageReader:
    """Write the page beside the run, and read it."""
    page = directory.with_suffix(".html")
    before = sorted(str(path) for path in directory.rglob("*"))
    write_report(directory, page)
    assert sorted(str(path) for path in directory.rglob("*")) == before
    assert page.stat().st_size < 1_000_000
    return read_page(page)


def notes(page: PageReader) -> str:
    """What stands at the top."""
    return page.texts["header"][0]


def test_figures_failures_and_references_are_on_the_page(record_run: Any) -> None:
    turns = [("agent-000001", 1, "ok", 0.0, True), ("agent-000002", 1, "ok", 60.0, True)]
    directory = record_run([*turns, ("agent-000003", 1, "timeout", None, False, "no answer in 60 s")])
    page = report(directory)
    rounds = next(table for table in page.texts["table"] if table.startswith("\nNumbers by round\n"))
    assert "2 of 4" in rounds
    assert "30.00" in rounds
    assert "(20 away)" in rounds
    text = page.texts["main"][0]
    assert "1111 timeout" in text  # round 1: one failed, one had no turn, one timeout
    assert "no answer in 60 s" in text
    assert "1 of 3 turns failed" in notes(page)
    assert "Nagel 1995" in text
    assert "best response each round" in text
    assert "reproduces nobody" in notes(page)
    assert "hand-made-1" in page.texts["h1"][0]
    assert json.loads(page.texts["pre"][-1])["game"]["rounds"] == 2
    assert len(page.images) == 2


@pytest.mark.parametrize("hostile", HOSTILE)
def test_hostile_texts_are_text(record_run: Any, hostile: str) -> None:
    agents = [(hostile, 1, "ok", 10.0, True), ("b", 1, "error", None, False, hostile)]
    directory = record_run(agents, note=hostile, state=RunState.FAILED)
    write_rows(directory, TURNS, [make_turn("c", 1, "ok", None, False) | {"group": hostile, "flags": hostile}])
    page = report(directory)
    text = page.texts["main"][0]
    assert text.count(hostile) >= 4
    assert hostile in notes(page)


def test_answers_interventions_and_people_are_on_the_page_as_text(record_run: Any) -> None:
    hostile = HOSTILE[0]
    directory = record_run(
        [("agent-000001", 1, "ok", 10.0, True), ("agent-000002", 1, "cancelled", None, False, PAUSED)]
    )
    row = {"run": "r", "kind": "survey", "survey": "mood", "moment": "after_round", "round": 1, "agent": "agent-000001"}
    row |= {"question": "fair", "type": "choice", "answer_text": hostile, "status": "ok", "latency_ms": 1.0}
    write_rows(directory, SURVEYS, [row | {"prompt_tokens": 0, "completion_tokens": 0}])
    done = {"name": hostile, "moment": "before round 1", "from_round": 1, "cause": "", "did": hostile}
    write_interventions(directory, [done])
    page = report(directory)
    assert page.texts["main"][0].count(hostile) >= 3
    assert "an intervention had paused" in notes(page)
    assert "turns failed" not in notes(page)
    assert ["Surveys" in title or "Survey mood" in title for title in page.texts["h2"]].count(True) == 1
    assert "Interventions" in page.texts["h2"]


def test_a_run_that_goes_on_or_was_killed_says_so(record_run: Any) -> None:
    page = report(record_run([("a", 1, "ok", 1.0, True)], state=RunState.RUNNING))
    assert "has not ended, or was killed" in notes(page)


@pytest.mark.parametrize("state", [RunState.FAILED, RunState.INTERRUPTED, RunState.STOPPED_BY_BUDGET])
def test_a_run_that_ended_early_says_why(record_run: Any, state: RunState) -> None:
    page = report(record_run([("a", 1, "ok", 1.0, True)], state=state, note="the budget is spent"))
    assert "ended before its time" in notes(page)
    assert "the budget is spent" in notes(page)


def test_a_run_in_which_all_turns_failed_has_its_page(record_run: Any) -> None:
    page = report(record_run([("a", 1, "timeout", None, False), ("b", 1, "error", None, False)]))
    assert "2 of 2 turns failed" in notes(page)
    assert "0 of 4" in page.texts["main"][0]


def test_a_run_that_was_killed_before_its_first_part_has_its_page(record_run: Any) -> None:
    page = report(record_run([], state=RunState.RUNNING))
    assert "0 turns of 0 agents" in page.texts["main"][0]
    assert page.images == []


def test_what_has_no_rounds_and_no_manifest_has_a_useful_page(tmp_path: Path) -> None:
    directory = tmp_path / "flock"
    rows = [make_turn(f"bird-{number}", turn, "ok", None, False) for number in range(5) for turn in (1, 2, 3)]
    write_rows(directory, TURNS, [row | {"round": None, "wall_time_ns": 10**9 * row["turn"]} for row in rows])
    event = {"run": "r", "revision": 1, "index": 0, "type": "entry_set", "path": "/", "key": "", "wall_time_ns": 0}
    write_rows(directory, EVENTS, [event])
    page = report(directory)
    text = page.texts["main"][0]
    assert "15 turns of 5 agents" in text
    assert "entry_set" in text
    assert "no manifest.json" in text
    assert "flock" in page.texts["h1"][0]
    assert len(page.images) == 1


def test_a_spec_of_another_version_leaves_out_the_rounds_and_says_so(record_run: Any) -> None:
    directory = record_run([("a", 1, "ok", 1.0, True)])
    manifest = json.loads((directory / "manifest.json").read_text(encoding="utf-8"))
    manifest["spec"]["game"]["colour"] = "blue"
    (directory / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    assert read_manifest(directory).spec["game"]["colour"] == "blue"
    assert "rounds are not shown" in notes(report(directory))


def test_a_directory_of_nothing_is_told(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="neither a manifest"):
        write_report(tmp_path, tmp_path / "page.html")
    assert list(tmp_path.iterdir()) == []


def test_winning_numbers_are_read_up_to_a_line_that_was_cut_short(tmp_path: Path) -> None:
    assert read_told(tmp_path) == {}
    (tmp_path / "rounds.jsonl").write_text('{"round": 1, "target": 20.5}\n{"round": 2, "target": null}\n{"rou')
    assert read_told(tmp_path) == {1: 20.5}
