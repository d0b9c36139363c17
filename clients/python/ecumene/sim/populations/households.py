"""Draws who lives together, as columns: households of some forms, whole ones, that make exactly the population.

A form is a household as it may be: of a type, one for each combination of its numbers of members; of a sample of
people, each of its households. How many there are is settled by their sizes first, so that no agent is left over.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ecumene.sim.populations.columns import Column, make_column
from ecumene.sim.populations.distributions import divide, read_columns, read_table
from ecumene.sim.populations.errors import PopulationError
from ecumene.sim.populations.joint_tables import round_evenly
from ecumene.sim.populations.streams import Numbers, draw_uniform, rank
from ecumene.sim.specs.households import HOUSEHOLD, PEOPLE_MAX, ROLE, HouseholdsSpec
from ecumene.sim.specs.population import PopulationSpec

PATH = "households"
FORMS_MAX = 100_000
"""Combinations of members of all types."""


class HomelessError(PopulationError):
    """No whole households make exactly so many agents."""


@dataclass(frozen=True)
class Forms:
    """The households that there may be.

    Attributes:
        shares: of each form among households; they sum to one.
        begins, sizes: where the members of each form stand in `columns`, and how many they are.
        columns: the attributes of members.
    """

    shares: Numbers
    begins: Numbers
    sizes: Numbers
    columns: Mapping[str, Column]


@dataclass(frozen=True)
class Homes:
    """Who lives together, in a stretch of a population.

    Attributes:
        numbers: the household of each agent, from 1, ascending.
        columns: what each agent has from its household, `household` first.
    """

    numbers: Numbers
    columns: Mapping[str, Column]

    def find_heads(self) -> Numbers:
        """For each agent the place of the first one of its household."""
        return np.searchsorted(self.numbers, self.numbers)

    def widen(self, start: int, stop: int) -> slice:
        """The least stretch of whole households that holds another one."""
        if start >= stop:
            return slice(start, stop)
        ends = np.searchsorted(self.numbers, self.numbers[[start, stop - 1]] + np.array([0, 1]))
        return slice(int(ends[0]), int(ends[1]))

    def take(self, places: slice) -> Homes:
        """A stretch of it."""
        columns = {name: Column(column.data[places], column.texts) for name, column in self.columns.items()}
        return Homes(self.numbers[places], columns)


def build_homes(spec: PopulationSpec, seed: int, size: int) -> Homes | None:
    """The households of a population of some size; None if it has none.

    Raises PopulationError: its file is none, or no households make exactly so many agents.
    """
    if spec.households is None:
        return None
    forms = make_forms(spec.households)
    drawn = (share_out if spec.sampling == "quota" else draw)(forms, seed, size)
    sizes = forms.sizes[drawn]
    starts = np.cumsum(sizes) - sizes
    members = np.arange(size) + np.repeat(forms.begins[drawn] - starts, sizes)
    numbers = np.repeat(np.arange(1, len(drawn) + 1), sizes)
    columns = {name: column.take(members) for name, column in forms.columns.items()}
    return Homes(numbers, {HOUSEHOLD: Column(numbers), **columns})


def make_forms(spec: HouseholdsSpec) -> Forms:
    """What a spec says of households. Raises PopulationError."""
    forms = read_forms(spec) if spec.file is not None else list_forms(spec)
    if int(forms.sizes.max()) > PEOPLE_MAX:
        raise PopulationError(
            f"{PATH}.file", f"a household has {int(forms.sizes.max()):,} people, at most {PEOPLE_MAX}"
        )
    return forms


def list_forms(spec: HouseholdsSpec) -> Forms:
    """Each combination of the numbers of members of each type."""
    shares, begins, sizes = [], [], []
    roles: list[str] = []
    total = divide([each.share for each in spec.types.values()])
    for part_of_all, (name, each) in zip(total, spec.types.items(), strict=True):
        choices = [
            [(int(count), share) for count, share in counts.items() if share] for counts in each.members.values()
        ]
        for chosen in itertools.product(*choices) if part_of_all else ():
            share = float(np.prod([float(part) for _, part in chosen])) * part_of_all
            people = [role for role, (count, _) in zip(each.members, chosen, strict=True) for _ in range(count)]
            if not people:
                raise PopulationError(f"{PATH}.types.{name}", "may have no member at all; one role needs 1 or more")
            shares.append(share)
            begins.append(len(roles))
            sizes.append(len(people))
            roles += people
            if len(shares) > FORMS_MAX:
                raise PopulationError(f"{PATH}.types", f"more than {FORMS_MAX:,} combinations of members")
    return Forms(np.array(shares), np.array(begins), np.array(sizes), {ROLE: make_column(roles)})


def read_forms(spec: HouseholdsSpec) -> Forms:
    """The households of a sample of people."""
    assert spec.household is not None
    table = read_table(spec.file, PATH)
    homes = read_columns(table, [spec.household], f"{PATH}.household")[spec.household]
    found = read_columns(table, list(spec.columns), f"{PATH}.columns")
    known, codes = np.unique(homes.data, return_inverse=True)
    order = np.argsort(codes, kind="stable")
    sizes = np.bincount(codes)
    begins = np.cumsum(sizes) - sizes
    weights = np.ones(len(known))
    if spec.weight is not None:
        column = read_columns(table, [spec.weight], f"{PATH}.weight")[spec.weight]
        if column.kind == "text" or column.data.min() < 0 or not column.data.sum() > 0:
            raise PopulationError(f"{PATH}.weight", "weights must be numbers of 0 or more, and some more than 0")
        weights = column.data[order[begins]].astype(float)
        if (column.data != weights[codes]).any():
            at = codes[int(np.argmax(column.data != weights[codes]))]
            raise PopulationError(
                f"{PATH}.weight", f"people of household {_name(homes, known[at])} have several weights"
            )
    columns = {attribute: found[name].take(order) for name, attribute in spec.columns.items()}
    drawn = np.flatnonzero(weights > 0)
    return Forms(weights[drawn] / weights.sum(), begins[drawn], sizes[drawn], columns)


def count_members(roles: Column, sizes: Numbers, order: Sequence[str]) -> Numbers:
    """How many members of each role each household has, of people who stand together. Shape (households, roles)."""
    assert roles.texts is not None
    codes = np.array([order.index(text) for text in roles.texts], dtype=np.int64)[roles.data]
    cells = np.repeat(np.arange(len(sizes)), sizes) * len(order) + codes
    return np.bincount(cells, minlength=len(sizes) * len(order)).reshape(len(sizes), len(order))


def share_out(forms: Forms, seed: int, size: int) -> Numbers:
    """Forms of households that make exactly `size` people, each as near to its share as that allows; mixed."""
    kinds, codes = np.unique(forms.sizes, return_inverse=True)
    shares = np.bincount(codes, forms.shares)
    wanted = size / float(shares @ kinds)
    counts = _count_sizes(kinds, shares, wanted, size)
    drawn = []
    for kind, count in enumerate(counts.tolist()):
        own = np.flatnonzero(codes == kind)
        drawn.append(np.repeat(own, round_evenly(forms.shares[own] / shares[kind] * count, count, [])))
    together = np.concatenate(drawn)
    ordered = np.empty_like(together)
    ordered[rank(seed, "households", np.arange(len(together)))] = together
    return ordered


def draw(forms: Forms, seed: int, size: int) -> Numbers:
    """Forms of households that make exactly `size` people, each drawn by its share but for the last few, which fit."""
    kinds = np.unique(forms.sizes)
    reach = _reach(kinds, size)
    bounds = np.cumsum(forms.shares)[:-1]
    places = np.arange(-(-size // int(kinds[0])))
    drawn = np.searchsorted(bounds, draw_uniform(seed, "households", places), side="right")
    ends = np.concatenate(([0], np.cumsum(forms.sizes[drawn])))
    kept = int(np.searchsorted(ends, size, side="right")) - 1
    while not _is_reached(reach, size - int(ends[kept])):
        kept -= 1
    left = size - int(ends[kept])
    rest: list[int] = []
    while left:
        fits = [place for place, people in enumerate(forms.sizes.tolist()) if people <= left and reach[left - people]]
        reached = np.cumsum(forms.shares[fits])
        uniform = draw_uniform(seed, "households/rest", np.array([len(rest)]))[0] * reached[-1]
        rest.append(fits[min(int(np.searchsorted(reached, uniform, side="right")), len(fits) - 1)])
        left -= int(forms.sizes[rest[-1]])
    return np.concatenate((drawn[:kept], np.array(rest, dtype=drawn.dtype)))


def _count_sizes(kinds: Numbers, shares: Numbers, wanted: float, size: int) -> Numbers:
    """How many households of each size: by share, and for the last people by what is short most and leaves nobody."""
    slack = _measure_slack(kinds)
    counts = np.floor(shares * max(0.0, wanted - slack / float(shares @ kinds))).astype(np.int64)
    left = size - int(counts @ kinds)
    reach = _reach(kinds, size)
    while left:
        short = shares * wanted - counts
        fits = [place for place, people in enumerate(kinds.tolist()) if people <= left and reach[left - people]]
        best = max(fits, key=lambda place: short[place])
        counts[best] += 1
        left -= int(kinds[best])
    return counts


def _measure_slack(kinds: Numbers) -> int:
    """More people than this can be housed whenever any number that large can (Schur's bound, twice)."""
    return 2 * int(kinds[-1]) ** 2


def _reach(kinds: Numbers, size: int) -> Numbers:
    """For each number of people up to some, whether households of these sizes make exactly so many.

    Raises PopulationError: none make `size`.
    """
    most = min(size, 2 * _measure_slack(kinds) + 2 * int(kinds[-1]) * len(kinds))
    reach = np.zeros(most + 1, dtype=bool)
    reach[0] = True
    for people in range(1, most + 1):
        steps = kinds[kinds <= people]
        reach[people] = reach[people - steps].any()
    divisor = int(np.gcd.reduce(kinds))
    if not (reach[size] if size <= most else size % divisor == 0):
        near = [number for number in range(max(1, size - divisor), size + divisor + 1) if number % divisor == 0]
        told = f"households of {', '.join(map(str, kinds.tolist()))} people make no {size:,} agents"
        raise HomelessError(PATH, f"{told}; take a size such as {near[-1]:,}")
    return reach


def _is_reached(reach: Numbers, people: int) -> bool:
    return people < len(reach) and bool(reach[people])


def _name(column: Column, value: object) -> str:
    return column.texts[int(str(value))] if column.texts is not None else f"{value}"
