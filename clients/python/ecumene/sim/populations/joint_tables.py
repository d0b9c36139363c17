"""Rows of a sample of people, drawn whole: what goes together in the sample goes together in the population."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from ecumene.sim.populations.columns import Column
from ecumene.sim.populations.distributions import Choice, divide, read_columns, read_table
from ecumene.sim.populations.errors import PopulationError
from ecumene.sim.populations.streams import Numbers
from ecumene.sim.specs.attributes import TableSpec

FITTED_TO = 1e-9
FITTING_ROUNDS_MAX = 2_000
BALANCING_STEPS_MAX = 20_000
BALANCED_VALUES_MAX = 1_000
CANDIDATES = 16
_NO_GAIN = 1e-9


@dataclass(frozen=True)
class JointTable(Choice):
    """Draws row numbers.

    Attributes:
        columns: the attributes of its rows.
    """

    columns: Mapping[str, Column]

    def share_out(self, ranks: Numbers, offset: float) -> Column:
        """Each row has its share to one; among such choices, one that leaves values near to their shares too."""
        values = [np.unique(column.data, return_inverse=True)[1] for column in self.columns.values()]
        counts = round_evenly(self.shares * len(ranks), len(ranks), values)
        return Column(np.searchsorted(np.cumsum(counts), ranks, side="right"))


def make_table(spec: TableSpec, path: str) -> JointTable:
    """The rows of a table with their weights, fitted to marginals where there are any. Raises PopulationError."""
    table = read_table(spec.file, path)
    found = read_columns(table, list(spec.columns), f"{path}.columns")
    columns = {attribute: found[name] for name, attribute in spec.columns.items()}
    weights = np.ones(len(table))
    if spec.weight is not None:
        column = read_columns(table, [spec.weight], f"{path}.weight")[spec.weight]
        weights = column.data.astype(float)
        if column.kind == "text" or weights.min() < 0 or not weights.sum() > 0:
            raise PopulationError(f"{path}.weight", "weights must be numbers of 0 or more, and some more than 0")
    if spec.marginals:
        wanted = {name: dict(shares) for name, shares in spec.marginals.items()}
        weights = fit_weights(weights, columns, wanted, f"{path}.marginals")
    return JointTable(Column(np.arange(len(table))), weights / weights.sum(), columns)


def fit_weights(
    weights: Numbers, columns: Mapping[str, Column], marginals: Mapping[str, Mapping[str, Fraction]], path: str
) -> Numbers:
    """Weights nearest to those given whose sums are the marginals: iterative proportional fitting.

    Deming and Stephan 1940. Raises PopulationError: a value has no rows, or no weights fulfil all marginals.
    """
    weights = weights / weights.sum()
    targets = []
    for name, shares in marginals.items():
        codes, known = _code_values(columns[name])
        for value, share in shares.items():
            if share > 0 and not weights[codes == known.get(value, -1)].sum() > 0:
                raise PopulationError(f"{path}.{name}", f"no row with a weight has {value!r}, which has a share")
        for value in known:
            if value not in shares:
                raise PopulationError(
                    f"{path}.{name}", f"{value!r} stands in the file and has no share; 0 leaves it out"
                )
        divided = dict(zip(shares, divide(list(shares.values())), strict=True))
        targets.append((codes, np.array([divided[value] for value in known])))
    for _ in range(FITTING_ROUNDS_MAX):
        worst = 0.0
        for codes, target in targets:
            sums = np.bincount(codes, weights, minlength=len(target))
            worst = max(worst, float(np.abs(sums - target).max()))
            weights = weights * np.divide(target, sums, out=np.zeros_like(sums), where=sums > 0)[codes]
        if worst < FITTED_TO:
            return weights
    raise PopulationError(path, f"no weights of the rows fulfil all of them: some share stays {worst:.2g} away")


def round_evenly(exact: Numbers, size: int, values: Sequence[Numbers]) -> Numbers:
    """Whole numbers that sum to `size`, each within one of its exact count; their sums by code are near to exact ones.

    `values`: codings of the rows. Rows are sorted, every so many-th is rounded up, then such are exchanged for others.
    """
    counts = np.floor(exact + 1e-9).astype(np.int64)
    open_rows = np.flatnonzero(exact - counts > 1e-9)
    up = size - int(counts.sum())
    if up <= 0 or not len(open_rows):
        return counts
    codings = [coding[open_rows] for coding in values if coding.max(initial=0) < BALANCED_VALUES_MAX]
    share = (exact - counts)[open_rows]
    order = np.lexsort(codings[::-1]) if codings else np.arange(len(open_rows))
    bounds = np.cumsum(share[order])
    chosen = np.zeros(len(open_rows), dtype=bool)
    chosen[order[np.minimum(np.searchsorted(bounds, np.arange(up) + 0.5), len(order) - 1)]] = True
    if codings:
        _exchange(chosen, share, codings)
    counts[open_rows[chosen]] += 1
    short = size - int(counts.sum())  # a point beyond the last sum
    if short > 0:
        counts[open_rows[~chosen][:short]] += 1
    return counts


def _exchange(chosen: Numbers, share: Numbers, codings: Sequence[Numbers]) -> None:
    """Exchange chosen rows for others as long as the deviations of sums by code, to the fourth power, become less."""
    gaps = [np.bincount(coding, chosen - share) for coding in codings]
    steps = min(BALANCING_STEPS_MAX, 2_000_000_000 // (len(share) * len(codings) * CANDIDATES))
    for _ in range(steps):
        outward, inward = (
            np.sum([((gap + step) ** 4 - gap**4)[code] for gap, code in zip(gaps, codings, strict=True)], axis=0)
            for step in (-1, 1)
        )
        leaving = np.argsort(np.where(chosen, outward, np.inf), kind="stable")[:CANDIDATES]
        found = []
        for out in leaving[chosen[leaving]]:
            # Where both are of one code, nothing changes.
            change = outward[out] + inward
            for gap, code in zip(gaps, codings, strict=True):
                at = gap[code[out]]
                change = change - np.where(code == code[out], (at - 1) ** 4 + (at + 1) ** 4 - 2 * at**4, 0.0)
            change[chosen] = np.inf
            into = int(np.argmin(change))
            found.append((float(change[into]), int(out), into))
        change, out, into = min(found, default=(0.0, 0, 0))
        if change > -_NO_GAIN:
            return
        for gap, code in zip(gaps, codings, strict=True):
            gap[code[out]] -= 1
            gap[code[into]] += 1
        chosen[out], chosen[into] = False, True


def _code_values(column: Column) -> tuple[Numbers, dict[str, int]]:
    """For each row a code, and the code of each value by its text."""
    if column.texts is not None:
        return column.data, {text: place for place, text in enumerate(column.texts)}
    found, codes = np.unique(column.data, return_inverse=True)
    return codes, {f"{value:.15g}": place for place, value in enumerate(found.tolist())}
