"""Means, intervals and effect sizes over replicates. One observation is one run, never one agent."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import optimize, special, stats

CONFIDENCE = 0.95
T_MAX = 30.0
"""Beyond it the noncentral distribution is not computed reliably, and nobody needs an interval."""
INTERVAL_METHOD = "Student's t over runs, 95 %, two-sided"
EFFECT_METHOD = "Hedges' g (exact small-sample correction), 95 % interval by inverting the noncentral t distribution"


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over runs.

    Attributes:
        count: runs that have a value.
        mean: None without any.
        std: with n - 1; None of fewer than two.
        low, high: the interval of the mean; None of fewer than two runs.
        note: what must be said of it; empty if nothing.
    """

    count: int
    mean: float | None = None
    std: float | None = None
    low: float | None = None
    high: float | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Effect:
    """How far a condition lies from another, in standard deviations of runs.

    Attributes:
        difference: of the means, condition minus the one it is compared with; None if one has no run.
        g: Hedges' g; None where it is not defined, `note` then says why.
        low, high: its interval.
    """

    difference: float | None
    g: float | None = None
    low: float | None = None
    high: float | None = None
    note: str = ""


def estimate_mean(values: Sequence[float]) -> Estimate:
    """The mean with its t interval: mean ± t(0.975, n - 1) · s / sqrt(n)."""
    count = len(values)
    if count == 0:
        return Estimate(0, note="no run has a value")
    mean = math.fsum(values) / count
    if count == 1:
        return Estimate(1, mean, note="one run: no interval")
    std = float(np.std(values, ddof=1))
    if _is_constant(values):
        return Estimate(count, mean, 0.0, mean, mean, "all runs have the same value")
    half = float(stats.t.ppf(0.5 + CONFIDENCE / 2, count - 1)) * std / math.sqrt(count)
    return Estimate(count, mean, std, mean - half, mean + half)


def compare_means(values: Sequence[float], against: Sequence[float]) -> Effect:
    """Hedges' g of two independent samples, with pooled standard deviation.

    Hedges 1981, Distribution theory for Glass's estimator of effect size: g = J · (mean difference) / s with
    J = Γ(m / 2) / (sqrt(m / 2) · Γ((m - 1) / 2)), m = n1 + n2 - 2.
    """
    n, m = len(values), len(against)
    if not n or not m:
        return Effect(None, note="a condition has no run with a value")
    difference = math.fsum(values) / n - math.fsum(against) / m
    freedom = n + m - 2
    if n < 2 or m < 2:
        return Effect(difference, note="a condition has one run: its spread is not known")
    if _is_constant(values) and _is_constant(against):
        return Effect(difference, note="neither condition varies between its runs")
    pooled = math.sqrt(((n - 1) * np.var(values, ddof=1) + (m - 1) * np.var(against, ddof=1)) / freedom)
    scale = math.sqrt(1 / n + 1 / m)
    t = difference / (pooled * scale)
    correction = math.exp(special.gammaln(freedom / 2) - special.gammaln((freedom - 1) / 2)) / math.sqrt(freedom / 2)
    if abs(t) > T_MAX:
        return Effect(difference, t * scale * correction, note="too far apart for an interval")
    tail = (1 - CONFIDENCE) / 2
    low = _solve(lambda shift: float(stats.nct.sf(t, freedom, shift)) - tail, t, -1.0)
    high = _solve(lambda shift: float(stats.nct.cdf(t, freedom, shift)) - tail, t, 1.0)
    to_g = correction * scale
    return Effect(difference, t * to_g, low * to_g, high * to_g)


def _is_constant(values: Sequence[float]) -> bool:
    """Whether values differ by no more than rounding."""
    return max(values) - min(values) <= 1e-12 * max(abs(value) for value in values)


def _solve(function: Callable[[float], float], t: float, step: float) -> float:
    """The noncentrality, on one side of t, at which a tail has its size.

    It is neared from t on: far out, where a tail is all but nothing, the distribution is not a number now and then.
    """
    near, far = t, t + step
    while function(far) > 0:
        near, far = far, far + step
    return float(optimize.brentq(function, near, far))
