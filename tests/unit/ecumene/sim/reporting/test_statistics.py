"""Intervals and effect sizes agree with published figures and cover what they promise."""

from __future__ import annotations

import math

import numpy as np
import pytest
from ecumene.sim.reporting.statistics import compare_means, estimate_mean
from scipy import stats


def test_the_interval_is_that_of_student() -> None:
    values = [49.0, 51.5, 47.2, 50.3, 52.0]
    found = estimate_mean(values)
    low, high = stats.t.interval(0.95, 4, loc=np.mean(values), scale=stats.sem(values))
    assert (found.low, found.high) == pytest.approx((low, high))
    assert (found.count, found.note) == (5, "")


def test_one_run_has_no_interval_and_says_so() -> None:
    found = estimate_mean([3.0])
    assert (found.mean, found.std, found.low, found.high) == (3.0, None, None, None)
    assert "no interval" in found.note


def test_no_run_and_equal_runs_are_told() -> None:
    assert estimate_mean([]).mean is None
    found = estimate_mean([0.1 + 0.2, 0.3, 0.3])
    assert found.low == found.high == found.mean
    assert "same value" in found.note


def test_hedges_g_is_cohens_d_times_the_correction() -> None:
    # Means 1 apart, both variances 1: d = 1; J for 8 degrees of freedom is 0.9027 (Hedges 1981, table of c(m)).
    one, two = [-1.2649110640673518, -0.6324555320336759, 0.0, 0.6324555320336759, 1.2649110640673518], []
    two = [value + 1 for value in one]
    found = compare_means(two, one)
    assert found.difference == pytest.approx(1)
    assert found.g == pytest.approx(0.9027, abs=5e-5)
    assert found.low is not None
    assert found.high is not None
    assert found.low < 0 < found.g < found.high
    turned = compare_means(one, two)
    assert (turned.g, turned.low, turned.high) == pytest.approx((-found.g, -found.high, -found.low))


def test_the_interval_holds_the_true_effect_as_often_as_it_says(seed: int) -> None:
    chance = np.random.default_rng(seed)
    rounds, held = 400, 0
    for _ in range(rounds):
        found = compare_means(chance.normal(1, 2, 6).tolist(), chance.normal(0, 2, 9).tolist())
        assert found.low is not None
        assert found.high is not None
        correction = math.gamma(6.5) / (math.sqrt(6.5) * math.gamma(6))
        held += found.low <= 0.5 * correction <= found.high
    # 0.95 ± 4 standard deviations of a binomial
    assert abs(held / rounds - 0.95) < 4 * math.sqrt(0.95 * 0.05 / rounds)


@pytest.mark.parametrize("start", [367222253, 1, 2])
def test_an_interval_is_found_wherever_the_effect_lies(start: int) -> None:
    """Also where the distribution is not a number in its far tail."""
    chance = np.random.default_rng(start)
    for _ in range(1000):
        n, m = chance.integers(2, 12, 2)
        shift, scale = chance.choice([0.0, 0.5, 3.0, 20.0]), chance.choice([0.01, 1.0, 1e6])
        found = compare_means((scale * chance.normal(shift, 1, n)).tolist(), (scale * chance.normal(0, 1, m)).tolist())
        assert found.g is not None
        if not found.note:
            assert found.low < found.g < found.high  # type: ignore[operator]


@pytest.mark.parametrize(
    ("values", "against", "word"),
    [
        ([], [1.0, 2.0], "no run"),
        ([1.0], [1.0, 2.0], "one run"),
        ([3.0, 3.0], [1.0, 1.0], "neither"),
        ([1e9, 1e9 + 1], [0.0, 1.0], "too far apart"),
    ],
)
def test_what_has_no_interval_says_why(values: list[float], against: list[float], word: str) -> None:
    found = compare_means(values, against)
    assert word in found.note
    assert found.low is found.high is None
    assert (found.difference is None) == (not values)


def test_conditions_of_unequal_numbers_and_one_constant_are_compared() -> None:
    found = compare_means([5.0, 5.0, 5.0], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    assert found.g is not None
    assert found.low is not None
    assert found.g > 0
