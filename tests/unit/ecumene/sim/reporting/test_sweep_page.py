"""The page of a sweep counts runs, shows those that failed, and says what has no interval."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ecumene.client.records import RunManifest, RunState, write_manifest
from ecumene.sim.reporting import write_report

from tests.unit.ecumene.sim.reporting.html_reading import PageReader, read_page


def report(directory: Path) -> PageReader:
    """Write the page, and read it."""
    write_report(directory, directory / "report.html")
    return read_page(directory / "report.html")


def test_an_observation_is_a_run_and_failed_ones_are_counted_and_shown(record_sweep: Any) -> None:
    sweep = record_sweep(
        {"1/2": [[10.0, 20.0], [12.0, 22.0], "the endpoint was gone"], "2/3": [[30.0, 40.0]], "4/3": ["<b>no</b>"]},
        state="running",
    )
    page = report(sweep)
    text = page.texts["main"][0]
    top = page.texts["header"][0]
    assert "2 of 5 runs are not done" in top
    assert "This sweep has not ended" in top
    assert "reproduces nobody" in top
    assert "One observation is one run" in text
    means = "\n".join(page.texts["tr"])
    assert "2 of 3" in means
    assert "16.00" in means  # of the run means 15 and 17
    # 16 ± t(0.975, 1) · sqrt(2) / sqrt(2) = 16 ± 12.706
    assert "3.29 to 28.71" in means
    assert "one run: no interval" in means
    assert "no run is done" in means
    assert "the endpoint was gone" in means
    assert "<b>no</b>" in means
    assert "its spread is not known" in means
    assert len(page.images) == 1  # no effect can be computed, so none is drawn


def test_effects_are_shown_between_conditions(record_sweep: Any) -> None:
    sweep = record_sweep(
        {"1/2": [[10.0], [12.0], [11.0]], "2/3": [[20.0], [22.0], [21.0], [23.0]], "1": [[5.0], [5.0]]}
    )
    page = report(sweep)
    effects = next(text for text in page.texts["table"] if "Against the first condition" in text)
    assert "ratio = 2/3" in effects
    assert len(page.images) == 2
    assert "10.50" in effects
    assert "all runs have the same value" in page.texts["main"][0]
    assert "Hedges' g" in page.texts["main"][0]


def test_replicates_alone_have_nothing_to_compare(record_sweep: Any) -> None:
    page = report(record_sweep({"2/3": [[10.0], [12.0]]}))
    assert "nothing to compare" in page.texts["main"][0]


def test_a_sweep_of_which_nothing_has_begun_has_its_page(record_sweep: Any) -> None:
    page = report(record_sweep({"2/3": ["not begun"]}, state="running"))
    assert "no run is done" in page.texts["main"][0]
    assert page.images == []


def record_own_sweep(folder: Path, runs: dict[str, list[dict[str, object]] | None]) -> Path:
    """A sweep of an experiment of one's own: condition -> figures by round; None = its run failed."""
    spec = {"name": "own", "experiment": {"environment": "/goods"}, "population": {"groups": []}}
    told = []
    for place, (value, rounds) in enumerate(runs.items(), start=1):
        name = f"run-{place}"
        (folder / name).mkdir(parents=True)
        state = RunState.FAILED if rounds is None else RunState.DONE
        about = {"seed": place, "spec": spec, "versions": {}, "world": "w", "history": "h", "started_at": "2026-01-01"}
        write_manifest(folder / name, RunManifest(run=name, state=state, note="" if rounds else "gone", **about))
        noted = {"gate_cause": "count", "participants": 2, "reported": 2, "failed": 0}
        lines = [
            json.dumps(noted | {"round": number, "figures": one}) for number, one in enumerate(rounds or (), start=1)
        ]
        (folder / name / "rounds.jsonl").write_text("\n".join(lines), encoding="utf-8")
        values = {"population.groups.a.parameters.matches": value}
        told.append(
            {"run": name, "directory": name, "seed": place, "replicate": 1, "values": values, "state": str(state)}
        )
    document = {"sweep": "s", "name": "own", "state": "done", "started_at": "2026-01-01", "ended_at": "2026-01-02"}
    (folder / "sweep.json").write_text(json.dumps(document | {"spec": spec, "runs": told}), encoding="utf-8")
    return folder


def test_experiments_of_one_s_own_are_compared_by_each_of_their_figures(tmp_path: Path) -> None:
    rounds = [{"mean": 4.5, "gini <b>": -0.25, "who": "a"}, {"mean": 3.5, "gini <b>": None, "who": "b"}]
    page = report(record_own_sweep(tmp_path / "s", {"0.9": rounds, "0.5": rounds[:1], "0.1": None}))
    assert page.texts["h2"][:4] == [
        "mean by condition",
        "Effect sizes of mean",
        "gini <b> by condition",
        "Effect sizes of gini <b>",
    ]
    tables = "\n".join(page.texts["table"])
    assert "4.50" in tables
    assert "−0.250" in tables
    assert "gone" in tables
    assert "winning number" not in tables
    assert "1 of 3 runs are not done" in page.texts["header"][0]
    assert "2 of 3" in page.texts["header"][0]
    assert len(page.images) == 2
