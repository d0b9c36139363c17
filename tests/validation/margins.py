"""How far a mean over seeds may lie from what is known, if all is well but chance.

A test of a model must not cry wolf, whatever its seeds: more than FALSE_ALARM of them a figure shall never fail. And it
must be able to fail, which each file shows by a model with a wrong rule.

* Figures that are near enough to normally distributed: the quantile of the normal distribution, times the deviation of
  one run, over the root of the number of runs. Deviations are known to a few percent, and figures of a finite model are
  not quite normal, nor quite unbiased: for these the quantile is taken at a tenth of FALSE_ALARM, 9 % further out.
* Others, bounded: Bernstein's inequality, which holds whatever the distribution: the mean of n independent figures
  with deviation d that lie within a range b is off by t or more with a chance of at most
  2·exp(−n·t² / (2·d² + 2·b·t/3)).
* Figures without a deviation are the same in each run.

What is known from drawing (percolations, another implementation) is itself off by 1/√m of its deviation, for m draws:
these are so many that it is small beside the margin.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

from stage import Known, Played

FALSE_ALARM = 1e-6
_QUANTILE = statistics.NormalDist().inv_cdf(1 - FALSE_ALARM / 20)
ROUNDING = 1e-9


def find_margin(known: Known, runs: int) -> float:
    """What the mean of so many runs may be off."""
    if not known.deviation:
        return ROUNDING
    if not known.range:
        return _QUANTILE * known.deviation / math.sqrt(runs)
    chance = math.log(2 / FALSE_ALARM)
    linear = known.range * chance / (3 * runs)
    return linear + math.sqrt(linear**2 + 2 * known.deviation**2 * chance / runs)


def list_wrong(played: Sequence[Played], known: Mapping[str, Known]) -> list[str]:
    """The figures whose mean is not what is known of them; for people, with both."""
    wrong = []
    for name, expected in known.items():
        values = [run.figures[name] for run in played]
        mean, margin = statistics.fmean(values), find_margin(expected, len(values))
        is_off = abs(mean - expected.value) > margin
        if not expected.deviation:
            is_off = any(abs(value - expected.value) > ROUNDING for value in values)
        if is_off:
            wrong.append(f"{name}: {mean:.5g} in {len(values)} runs, {expected.value:.5g} ± {margin:.2g} expected")
    return wrong
