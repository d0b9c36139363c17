"""The margins themselves: they let chance pass and nothing else, and what is kept of Mesa is what Mesa says."""

from __future__ import annotations

import math
import random
import statistics

import pytest
from stage import Known, Played, read_kept

from tests.validation.margins import FALSE_ALARM, find_margin, list_wrong
from tests.validation.mesa_figures import measure


def play(values: list[float]) -> list[Played]:
    """Runs of which one figure is known."""
    return [Played(seed, {"figure": value}, "", 1) for seed, value in enumerate(values)]


def test_a_normal_figure_is_given_five_deviations_of_its_mean() -> None:
    margin = find_margin(Known(0.0, 1.0, ""), runs=100)
    assert 2 * (1 - statistics.NormalDist().cdf(10 * margin)) == pytest.approx(FALSE_ALARM / 10)
    known = {"figure": Known(5.0, 1.0, "")}
    assert list_wrong(play([5.0 + margin * 0.99] * 100), known) == []
    assert list_wrong(play([5.0 + margin * 1.01] * 100), known) != []


def test_a_skewed_figure_is_given_what_holds_for_any_distribution(seed: int) -> None:
    """One in fifty is 50, all others 0: the mean of 20 is off by five of its own deviations again and again."""
    drawn = random.Random(seed)
    deviation, runs = 50 * math.sqrt(0.02 * 0.98), 20
    bounded, normal = (find_margin(Known(1.0, deviation, "", range), runs) for range in (50.0, 0.0))
    off = [abs(statistics.fmean(50 * (drawn.random() < 0.02) for _ in range(runs)) - 1.0) for _ in range(20_000)]
    assert max(off) < bounded
    assert bounded > normal


def test_an_exact_figure_is_compared_run_by_run() -> None:
    known = {"figure": Known(3.0, 0.0, "")}
    assert list_wrong(play([3.0, 3.0]), known) == []
    assert list_wrong(play([2.0, 4.0]), known) == ["figure: 3 in 2 runs, 3 ± 1e-09 expected"]


@pytest.mark.parametrize("model", ["wealth-grid", "wealth-halves", "segregation"])
def test_what_is_kept_of_mesa_is_what_mesa_says(model: str, seed: int) -> None:
    kept, runs = read_kept(model), 10
    for name, values in measure(model, runs, first_seed=seed).items():
        if name != "content":  # nearly always 1
            off = abs(statistics.fmean(values) - kept[name].value)
            assert off < find_margin(kept[name], runs), name
