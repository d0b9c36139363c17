"""The picture is of the promised size with ink in both panels, whatever the run was like, on light pages and dark."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import matplotlib.image
import numpy as np
import pytest
from ecumene.sim.reporting import GuessRecording, list_references, read_guess_recording, summarise_rounds
from ecumene.sim.reporting.plot import (
    HEIGHT_PX,
    ROUNDS_SHOWN_MAX,
    WIDTH_PX,
    RoundsPicture,
    choose_rounds,
    code_groups,
    draw_means,
    draw_rounds,
)
from ecumene.sim.reporting.rounds import RoundRow
from ecumene.sim.reporting.theme import DARK, LIGHT, Theme
from matplotlib.figure import Figure


def describe(recording: GuessRecording, groups: dict[str, str] | None = None, **told: Any) -> RoundsPicture:
    """What there is to draw of a recording."""
    references = list_references(ratio=2 / 3, offset=0.0, rounds=2)
    rows = summarise_rounds(recording, ratio=2 / 3)
    return RoundsPicture(recording, rows, "2/3 × mean", references, groups, **told)


def draw(directory: Path, groups: dict[str, str] | None = None) -> np.ndarray:
    """Draw a run's plot and read it back."""
    recording = read_guess_recording(directory)
    draw_rounds(directory / "plot.png", describe(recording, groups, title="A title", subtitle="population 4 · seed 11"))
    return np.asarray(matplotlib.image.imread(directory / "plot.png"))


@pytest.mark.parametrize("rounds", [1, 2, 5, 30])
@pytest.mark.parametrize("groups", [None, {"a": "one", "b": "two", "c": "two"}])
def test_the_picture_is_1200_by_600_with_ink_in_both_halves(
    record_run: Any, rounds: int, groups: dict[str, str] | None
) -> None:
    numbers = {"a": 0.0, "b": 33.3, "c": 100.0}
    turns = [(agent, k, "ok", number / k, True) for k in range(1, rounds + 1) for agent, number in numbers.items()]
    picture = draw(record_run(turns, rounds=rounds), groups)
    assert picture.shape[:2] == (HEIGHT_PX, WIDTH_PX) == (600, 1200)
    dark = picture[:, :, :3].mean(axis=2) < 0.9
    assert dark[100:, : WIDTH_PX // 2].sum() > 1_000
    assert dark[100:, WIDTH_PX // 2 :].sum() > 1_000


def test_a_run_in_which_every_turn_failed_is_drawn_too(record_run: Any) -> None:
    assert draw(record_run([("a", 1, "timeout", None, False)])).shape[:2] == (600, 1200)


@pytest.mark.parametrize("rounds", [0, 1, 6, 7, 30])
def test_of_many_rounds_a_few_are_shown_with_first_and_last(rounds: int) -> None:
    rows: Any = list(range(rounds))
    shown: Any = choose_rounds(rows)
    assert len(shown) == min(rounds, ROUNDS_SHOWN_MAX)
    assert len(set(shown)) == len(shown)
    assert shown[:1] == rows[:1]
    assert shown[-1:] == rows[-1:]


def test_groups_are_coloured_in_their_order_and_strangers_are_others(record_run: Any) -> None:
    turns = [(agent, 1, "ok", 1.0, True) for agent in "abc"]
    recording = read_guess_recording(record_run(turns))
    names, codes = code_groups(recording, {"a": "late", "b": "early"}, ("early", "late"))
    assert names == ["early", "late", "other"]
    assert [names[code] for code in codes] == ["late", "early", "other"]
    too_many = {agent: f"group-{agent}" for agent in "abcdefghij"}
    assert code_groups(recording, too_many, ())[0] == [""]


@pytest.mark.parametrize(("first", "rounds", "compared"), [(1, 5, 4), (41, 60, 2), (61, 60, 0), (3, 4, 3)])
def test_what_is_drawn_belongs_to_the_rounds_of_the_run(first: int, rounds: int, compared: int) -> None:
    numbers = range(first, first + rounds)
    rows = [RoundRow(n, turns=9, reported=9, statuses={"ok": 9}, mean=1.0, target=0.7) for n in numbers]
    axes = Figure().add_subplot()
    references = list_references(ratio=2 / 3, offset=0.0, rounds=rounds)
    draw_means(axes, RoundsPicture(Mock(), rows, "2/3 × mean", references), LIGHT)
    drawn = {str(line.get_label()): set(line.get_xdata()) for line in axes.lines}
    assert len(drawn) == compared + 2
    assert all(points and points <= set(numbers) for points in drawn.values())


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_a_page_s_picture_is_in_its_colours_and_marks_what_was_changed(record_run: Any, theme: Theme) -> None:
    turns = [("a", number, "ok", 30.0 / number, True) for number in (1, 2)]
    target = BytesIO()
    shown = describe(read_guess_recording(record_run(turns)), marks={2: "half"})
    draw_rounds(target, shown, theme=theme, file_format="svg")
    svg = target.getvalue().decode()
    other = DARK if theme is LIGHT else LIGHT
    assert theme.page in svg and theme.target in svg
    assert other.page not in svg and other.target not in svg
    assert "half" in svg  # in a comment beside its letters
