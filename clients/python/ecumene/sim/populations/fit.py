"""How well a drawn population fits what its spec wants: attribute by attribute, and for what was drawn together."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from ecumene.sim.populations.columns import Column, read_arrow
from ecumene.sim.populations.distributions import Choice, Continuum, Source
from ecumene.sim.populations.households import count_members, make_forms
from ecumene.sim.populations.joint_tables import JointTable
from ecumene.sim.populations.population import Population
from ecumene.sim.populations.streams import Numbers
from ecumene.sim.populations.units import Unit, list_units
from ecumene.sim.specs.attributes import describe_conditions
from ecumene.sim.specs.backgrounds import BACKGROUND
from ecumene.sim.specs.households import HOUSEHOLD, ROLE, HouseholdsSpec
from ecumene.sim.specs.population import PopulationSpec

FITS_ABOVE = 0.01
"""A p-value from which on a difference counts as chance."""
EXPECTED_MIN = 5.0
"""Categories of which fewer are expected are tested together (Cochran 1954)."""
BARS_MAX = 40
SPREAD_MAX = 12
"""So many numbers are compared as they are; of more, tenths."""


@dataclass(frozen=True)
class AttributeFit:
    """One attribute, or one case of it.

    Attributes:
        name, case: which; `case` is empty where it has none.
        agents: who was drawn from it.
        test: `chi2` (of values), `ks` (of numbers: Kolmogorov and Smirnov), or `one value`.
        statistic, p: of the test; 1.0 = nothing to test.
        deviation: the largest difference between a count and its share; None for numbers.
        is_changed: whether constraints take values from it.
        bars: label, agents, agents wanted; of numbers by stretches.
    """

    name: str
    case: str
    agents: int
    test: str
    statistic: float
    p: float
    deviation: float | None
    is_changed: bool
    bars: Sequence[tuple[str, float, float]] = field(repr=False)

    @property
    def fits(self) -> bool:
        """Whether what differs may be chance."""
        return self.p > FITS_ABOVE


@dataclass(frozen=True)
class PairFit:
    """Two attributes of one table: how they hang together, and how they should.

    Attributes:
        one, other: the attributes.
        measure: `r` (Pearson) of numbers, otherwise `v` (Cramér).
        observed, wanted: in the population and in the table.
    """

    one: str
    other: str
    measure: str
    observed: float
    wanted: float


@dataclass(frozen=True)
class PopulationFit:
    """All of a population.

    Attributes:
        agents: how many.
        seed: from which it was drawn.
        sampling: `quota` or `random`.
        groups: name -> its agents.
        attributes, pairs: what was compared.
    """

    agents: int
    seed: int
    sampling: str
    groups: Mapping[str, int]
    attributes: Sequence[AttributeFit]
    pairs: Sequence[PairFit]

    def to_document(self) -> dict[str, Any]:
        """As plain JSON."""
        attributes = []
        for each in self.attributes:
            figures = {"statistic": each.statistic if np.isfinite(each.statistic) else None, "fits": each.fits}
            attributes.append(asdict(each) | figures)
        return asdict(self) | {"attributes": attributes}


def compare(spec: PopulationSpec, population: Population, seed: int) -> PopulationFit:
    """Compare a population with its spec. Raises PopulationError: a file is none any more."""
    columns = _read_columns(population)
    everyone = np.arange(len(population))
    changed = {list(each.never)[-1] for each in spec.constraints}
    attributes: list[AttributeFit] = []
    alike: frozenset[str] = frozenset()
    heads = everyone
    if spec.households is not None:
        changed |= {each.attribute for each in spec.households.differences}
        alike = frozenset(spec.households.alike)
        numbers = columns[HOUSEHOLD].data
        heads = np.flatnonzero(np.diff(numbers, prepend=0))
        attributes += _fit_households(spec.households, np.bincount(numbers)[1:], columns)
    pairs: list[PairFit] = []
    for unit in list_units(spec):
        fixed = np.array([not set(unit.names).isdisjoint(group.attributes) for group in spec.groups])
        drawn = everyone if alike.isdisjoint(unit.names) else heads
        rows = drawn[~fixed[population.codes[drawn]]]
        is_changed = not changed.isdisjoint(unit.names)
        for case, part in unit.split(rows, lambda name, wanted, rows: columns[name].meets(rows, wanted)):
            if not len(part):
                continue
            told = describe_conditions(case.when) if len(unit.cases) > 1 else ""
            for name, source in _list_sources(unit, case.source):
                attributes.append(_fit(name, told or _name_rest(unit), columns[name].take(part), source, is_changed))
            if isinstance(case.source, JointTable):
                pairs += _compare_pairs(case.source, {name: columns[name].take(part) for name in unit.names})
    wanted_order = {name: place for place, name in enumerate(spec.list_attributes())}
    attributes.sort(key=lambda each: wanted_order[each.name])
    return PopulationFit(len(population), seed, spec.sampling, population.counts, attributes, pairs)


def _fit_households(spec: HouseholdsSpec, sizes: Numbers, columns: Mapping[str, Column]) -> Iterator[AttributeFit]:
    """Households by their number of people, and those of types by who belongs to them."""
    forms = make_forms(spec)
    told, codes = np.unique(forms.sizes, return_inverse=True)
    yield _fit(HOUSEHOLD, "people", Column(sizes), Choice(Column(told), np.bincount(codes, forms.shares)), False)
    if spec.file is not None:
        return
    order = forms.columns[ROLE].texts
    assert order is not None
    counts = [
        count_members(roles, each, order)
        for roles, each in ((forms.columns[ROLE], forms.sizes), (columns[ROLE], sizes))
    ]
    kinds, codes = np.unique(np.concatenate(counts), axis=0, return_inverse=True)
    names = tuple(
        ", ".join(f"{count} {role}" for count, role in zip(kind, order, strict=True) if count)
        for kind in kinds.tolist()
    )
    wanted, drawn = np.split(codes.ravel(), [len(forms.sizes)])
    shares = np.bincount(wanted, forms.shares, minlength=len(names))
    yield _fit(HOUSEHOLD, "members", Column(drawn, names), Choice(Column(np.arange(len(names)), names), shares), False)


def _read_columns(population: Population) -> dict[str, Column]:
    if population.profiles is None:
        return {}
    columns = {}
    for name in population.profiles.column_names[1:]:
        if name == BACKGROUND:
            continue
        column = read_arrow(population.profiles.column(name))
        assert column is not None, name
        columns[name] = column
    return columns


def _list_sources(unit: Unit, source: Source) -> Iterator[tuple[str, Source]]:
    """The attributes of a unit, each with what it is drawn from if it is looked at alone."""
    if not isinstance(source, JointTable):
        yield unit.names[0], source
        return
    for name in unit.names:
        column = source.columns[name]
        values, codes = np.unique(column.data, return_inverse=True)
        yield name, Choice(Column(values, column.texts), np.bincount(codes, source.shares, minlength=len(values)))


def _name_rest(unit: Unit) -> str:
    return "all others" if len(unit.cases) > 1 else ""


def _fit(name: str, case: str, drawn: Column, source: Source, is_changed: bool) -> AttributeFit:
    if isinstance(source, Choice):
        labels, observed, wanted = _count_choice(drawn, source)
    else:
        assert isinstance(source, Continuum)
        labels, observed, wanted = _count_stretches(drawn.data, source)
    bars = _shorten(labels, observed, wanted)
    if isinstance(source, Continuum) and not source.is_whole:
        from scipy.stats import kstest  # half a second, which only fits need

        test = kstest(drawn.data, source.accumulate)
        figures = float(test.statistic), float(test.pvalue)
        return AttributeFit(name, case, len(drawn), "ks", *figures, None, is_changed, bars)
    statistic, p = weigh_counts(observed, wanted)
    kind = "chi2" if np.count_nonzero(wanted) > 1 else "one value"
    deviation = float(np.abs(observed - wanted).max(initial=0.0))
    return AttributeFit(name, case, len(drawn), kind, statistic, p, deviation, is_changed, bars)


def weigh_counts(observed: Numbers, wanted: Numbers) -> tuple[float, float]:
    """Chi-squared of counts, rare ones together, and its p-value; of a value that must not be, infinity and 0."""
    from scipy.stats import chisquare

    if observed[wanted == 0].sum() > 0:
        return float("inf"), 0.0
    order = np.argsort(wanted, kind="stable")
    order = order[wanted[order] > 0]
    if len(order) < 2:
        return 0.0, 1.0
    rare = max(int((wanted[order] < EXPECTED_MIN).sum()), 1)
    while rare < len(order) and wanted[order[:rare]].sum() < EXPECTED_MIN:
        rare += 1
    cuts = [0, *range(rare, len(order))]
    together, expected = np.add.reduceat(observed[order], cuts), np.add.reduceat(wanted[order], cuts)
    if len(cuts) < 2:
        return 0.0, 1.0
    test = chisquare(together, expected * (together.sum() / expected.sum()))
    return float(test.statistic), float(test.pvalue)


def _count_choice(drawn: Column, source: Choice) -> tuple[list[str], Numbers, Numbers]:
    """Label, agents, agents wanted of each value."""
    labels = list_labels(source.values)
    known = {label: place for place, label in enumerate(dict.fromkeys(labels))}
    wanted = np.bincount([known[label] for label in labels], source.shares, minlength=len(known)) * len(drawn)
    if drawn.texts is not None:
        counts = dict(zip(drawn.texts, np.bincount(drawn.data, minlength=len(drawn.texts)).tolist(), strict=True))
    else:
        values, found = np.unique(drawn.data, return_counts=True)
        counts = dict(zip(list_labels(Column(values)), found.tolist(), strict=True))
    observed = np.array([counts.pop(label, 0) for label in known], dtype=float)
    left = [(label, count) for label, count in counts.items() if count]
    return (
        [*known, *(label for label, _ in left)],
        np.concatenate((observed, [count for _, count in left])),
        np.concatenate((wanted, np.zeros(len(left)))),
    )


def _count_stretches(drawn: Numbers, source: Continuum) -> tuple[list[str], Numbers, Numbers]:
    low, high = np.floor(drawn.min()), np.floor(drawn.max()) + 1
    if source.is_whole and high - low <= 2 * BARS_MAX:
        edges = np.arange(low, high + 1)
        labels = [f"{edge:.15g}" for edge in edges[:-1]]
    else:
        edges = np.linspace(low, high, BARS_MAX + 1)
        edges = np.unique(np.floor(edges)) if source.is_whole else edges
        labels = [f"{one:g} to {other:g}" for one, other in itertools.pairwise(edges)]
    reached = np.asarray(source.accumulate(edges), dtype=float)
    reached[0], reached[-1] = 0.0, 1.0
    return labels, np.histogram(drawn, edges)[0].astype(float), np.diff(reached) * len(drawn)


def _shorten(labels: Sequence[str], observed: Numbers, wanted: Numbers) -> list[tuple[str, float, float]]:
    """The bars to show: where there are too many, the most frequent, and the others as one."""
    bars = list(zip(labels, observed.tolist(), wanted.tolist(), strict=True))
    if len(bars) <= 2 * BARS_MAX:
        return bars
    bars.sort(key=lambda bar: -bar[2])
    rest = bars[BARS_MAX:]
    others = (f"{len(rest):,} others", sum(bar[1] for bar in rest), sum(bar[2] for bar in rest))
    return [*bars[:BARS_MAX], others]


def _compare_pairs(table: JointTable, drawn: Mapping[str, Column]) -> Iterator[PairFit]:
    even = np.full(len(next(iter(drawn.values()))), 1.0)
    for one, other in itertools.combinations(drawn, 2):
        theirs, ours = (table.columns[one], table.columns[other]), (drawn[one], drawn[other])
        if theirs[0].texts is None and theirs[1].texts is None:
            wanted = correlate(theirs[0].data, theirs[1].data, table.shares)
            yield PairFit(one, other, "r", correlate(ours[0].data, ours[1].data, even), wanted)
            continue
        cuts = [_find_cuts(column, table.shares) for column in theirs]
        wanted, observed = (
            associate(_code(pair[0], cuts[0]), _code(pair[1], cuts[1]), weights)
            for pair, weights in ((theirs, table.shares), (ours, even))
        )
        yield PairFit(one, other, "v", observed, wanted)


def correlate(one: Numbers, other: Numbers, weights: Numbers) -> float:
    """Pearson's r; 0 where one does not vary."""
    covariance = np.cov(np.stack((one, other)).astype(float), aweights=weights, ddof=0)
    scale = np.sqrt(covariance[0, 0] * covariance[1, 1])
    return float(covariance[0, 1] / scale) if scale > 0 else 0.0


def associate(one: Numbers, other: Numbers, weights: Numbers) -> float:
    """Cramér's V of two codings; 0 where one does not vary."""
    shape = int(one.max()) + 1, int(other.max()) + 1
    counts = np.bincount(one * shape[1] + other, weights, minlength=shape[0] * shape[1]).reshape(shape)
    counts = counts[counts.sum(axis=1) > 0][:, counts.sum(axis=0) > 0] / counts.sum()
    if min(counts.shape) < 2:
        return 0.0
    expected = np.outer(counts.sum(axis=1), counts.sum(axis=0))
    return float(np.sqrt(((counts - expected) ** 2 / expected).sum() / (min(counts.shape) - 1)))


def _find_cuts(column: Column, weights: Numbers) -> Numbers | None:
    """Where numbers of many values are cut into tenths."""
    if column.texts is not None:
        return None
    values, codes = np.unique(column.data, return_inverse=True)
    if len(values) <= SPREAD_MAX:
        return values[1:]
    reached = np.cumsum(np.bincount(codes, weights))
    return np.unique(values[np.searchsorted(reached / reached[-1], np.arange(1, 10) / 10)])


def _code(column: Column, cuts: Numbers | None) -> Numbers:
    return column.data.astype(np.int64) if cuts is None else np.searchsorted(cuts, column.data, side="right")


def list_labels(column: Column) -> list[str]:
    """The values of a column as text."""
    if column.texts is not None:
        return [column.texts[code] for code in column.data.tolist()]
    return [f"{value:.15g}" for value in column.data.tolist()]
