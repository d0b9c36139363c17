"""The page of a sweep counts runs, shows those that failed, and says what has no interval."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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
