"""Draws the attributes of a population, in columns: unit by unit, redrawing what is never allowed.

What a group fixes is known from the beginning, so others are drawn to fit it. With `random` a row follows from the seed
and its place alone; with `quota` it follows from the whole population, which is then drawn as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ecumene.sim.populations.columns import Column, make_column
from ecumene.sim.populations.differences import Pairs, count_broken, list_broken, list_pairs
from ecumene.sim.populations.errors import PopulationError
from ecumene.sim.populations.households import Homes
from ecumene.sim.populations.streams import Numbers, draw_uniform, rank
from ecumene.sim.populations.units import Case, Rows, Unit
from ecumene.sim.specs.attributes import ConstraintSpec
from ecumene.sim.specs.population import PopulationSpec

DRAWS_MAX = 1_000
"""So often an agent is drawn again, or exchanged with another, before its constraints count as unsatisfiable."""

NOBODY = np.zeros(0, dtype=np.int64)
FIRST = np.zeros(1, dtype=np.int64)


class Sampler:
    """Draws one stretch of a population."""

    def __init__(
        self,
        spec: PopulationSpec,
        units: Sequence[Unit],
        seed: int,
        places: Numbers,
        groups: Numbers,
        *,
        homes: Homes | None = None,
        on_unit: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`places`: of its agents in the population; `groups`: the place of the group of each; `homes`: who of them
        live together, whole households; `on_unit` is told what is drawn."""
        self._spec = spec
        self._units = units
        self._seed = seed
        self._places = places
        self._groups = groups
        self._on_unit = on_unit
        self._columns: dict[str, Column] = dict(homes.columns) if homes is not None else {}
        self._alike = frozenset(spec.households.alike) if spec.households is not None else frozenset()
        self._heads = homes.find_heads() if homes is not None else None
        self._homes = homes.numbers - homes.numbers[:1] if homes is not None else None
        self._pairs = list_pairs(spec.households.differences, homes) if spec.households and homes else []
        self._fixed = {name: _list_fixed(spec, name) for unit in units for name in unit.names}

    def draw(self) -> dict[str, Column]:
        """All attributes, in the order of the spec. Raises PopulationError: constraints cannot be met."""
        for unit in self._units:
            self._on_unit(", ".join(unit.names))
            self._draw_unit(unit)
        return {name: self._columns[name] for name in self._spec.list_attributes()}

    def _draw_unit(self, unit: Unit) -> None:
        for case in unit.cases:  # nobody, so that the column is the same in whatever stretch
            self._put(unit, case, NOBODY, self._draw_case(unit, case, NOBODY))
        rows = self._list_free(unit)
        constraints = [each for each in self._spec.constraints if not set(unit.names).isdisjoint(each.never)]
        parts = [(case, part) for case, part in unit.split(rows, self._meets) if len(part)]
        for case, part in parts:
            ranks = None
            if self._spec.sampling == "quota":
                ranks = rank(self._seed, f"{unit.stream}/{unit.cases.index(case)}", self._places[part])
            drawn = self._draw_case(unit, case, part, ranks=ranks)
            self._put(unit, case, part, drawn)
        self._fix(unit)
        if constraints:
            for case, part in parts:
                settle = self._exchange if self._spec.sampling == "quota" else self._redraw
                settle(unit, case, part, constraints)
            self._check_fixed(constraints)
        if pairs := [each for each in self._pairs if each.spec.attribute in unit.names]:
            self._settle_homes(unit, parts, constraints, pairs)

    def _draw_case(
        self, unit: Unit, case: Case, rows: Rows, *, ranks: Numbers | None = None, attempt: int = 0
    ) -> Column:
        if ranks is not None:
            offset = draw_uniform(self._seed, f"{unit.stream}/{unit.cases.index(case)}/offset", FIRST)
            return case.source.share_out(ranks, float(offset[0]))
        stream = unit.stream if attempt == 0 else f"{unit.stream}#{attempt}"
        return case.source.draw(draw_uniform(self._seed, stream, self._places[rows]))

    def _redraw(self, unit: Unit, case: Case, rows: Rows, constraints: Sequence[ConstraintSpec]) -> None:
        for attempt in range(1, DRAWS_MAX + 1):
            rows = rows[self._are_never(rows, constraints)]
            if not len(rows):
                return
            self._put(unit, case, rows, self._draw_case(unit, case, rows, attempt=attempt))
            self._fix(unit)
        self._raise_unmet(rows, constraints, f"{DRAWS_MAX:,} draws of {', '.join(unit.names)} gave nothing else")

    def _exchange(self, unit: Unit, case: Case, rows: Rows, constraints: Sequence[ConstraintSpec]) -> None:
        """Exchange what must not be with others of the same case: no count changes."""
        bad = rows[self._are_never(rows, constraints)]
        for attempt in range(1, DRAWS_MAX + 1):
            if not len(bad):
                return
            uniform = draw_uniform(self._seed, f"{unit.stream}#{attempt}", self._places[bad])
            others, first = np.unique(rows[(uniform * len(rows)).astype(np.int64)], return_index=True)
            mine = bad[first]
            apart = ~np.isin(others, bad)
            mine, others = mine[apart], others[apart]
            self._swap(unit, mine, others)
            worse = self._are_never(mine, constraints) | self._are_never(others, constraints)
            self._swap(unit, mine[worse], others[worse])
            bad = bad[self._are_never(bad, constraints)]
        left = self._are_never(rows, constraints)
        told = (
            f"no exchange of {', '.join(unit.names)} avoids it and keeps the quota; sampling: random draws without one"
        )
        self._raise_unmet(rows[left], constraints, told)

    def _settle_homes(
        self,
        unit: Unit,
        parts: Sequence[tuple[Case, Rows]],
        constraints: Sequence[ConstraintSpec],
        pairs: Sequence[Pairs],
    ) -> None:
        """Give one member at a time of each household that does not fit another value, if that makes it fit better."""
        assert self._homes is not None
        homes = self._homes
        settle = self._exchange_members if self._spec.sampling == "quota" else self._redraw_members
        counts = count_broken(pairs, self._columns, int(homes[-1]) + 1 if len(homes) else 0)
        for attempt in range(1, DRAWS_MAX + 1):
            bad = list_broken(pairs, self._columns)
            if not len(bad):
                return
            stream = f"{unit.stream}/members#{attempt}"
            order = np.lexsort((draw_uniform(self._seed, stream, self._places[bad]), homes[bad]))
            bad = bad[order][np.unique(homes[bad[order]], return_index=True)[1]]
            for case, part in parts:
                mine = bad[np.isin(bad, part)]
                if len(mine):
                    counts = settle(unit, case, part, mine, constraints, pairs, counts, attempt)
        first = next(each for each in pairs if each.find_broken(self._columns).any())
        left = int(np.count_nonzero(counts))
        told = f"{left:,} households do not fit after {DRAWS_MAX:,} tries of {', '.join(unit.names)}"
        raise PopulationError(first.path, f"{first.spec.describe()}: {told}")

    def _exchange_members(
        self,
        unit: Unit,
        case: Case,
        part: Rows,
        mine: Rows,
        constraints: Sequence[ConstraintSpec],
        pairs: Sequence[Pairs],
        counts: Numbers,
        attempt: int,
    ) -> Numbers:
        """With members of other households of the same case; returns how many pairs of each household do not fit."""
        assert self._homes is not None
        homes = self._homes
        uniform = draw_uniform(self._seed, f"{unit.stream}/members-with#{attempt}", self._places[mine])
        others = part[(uniform * len(part)).astype(np.int64)]
        apart = np.flatnonzero(~np.isin(homes[others], homes[mine]))
        apart = apart[np.unique(homes[others[apart]], return_index=True)[1]]
        mine, others = mine[apart], others[apart]
        before = counts[homes[mine]] + counts[homes[others]]
        self._swap(unit, mine, others)
        found = count_broken(pairs, self._columns, len(counts))
        worse = found[homes[mine]] + found[homes[others]] > before
        worse |= self._are_never(mine, constraints) | self._are_never(others, constraints)
        self._swap(unit, mine[worse], others[worse])
        undone = np.concatenate((homes[mine[worse]], homes[others[worse]]))
        found[undone] = counts[undone]
        return found

    def _redraw_members(
        self,
        unit: Unit,
        case: Case,
        part: Rows,
        mine: Rows,
        constraints: Sequence[ConstraintSpec],
        pairs: Sequence[Pairs],
        counts: Numbers,
        attempt: int,
    ) -> Numbers:
        """Draw them again; returns how many pairs of each household do not fit."""
        assert self._homes is not None
        homes = self._homes
        kept = {name: self._columns[name].take(mine) for name in unit.names}
        stream = f"{unit.stream}/members-again#{attempt}"
        self._put(unit, case, mine, case.source.draw(draw_uniform(self._seed, stream, self._places[mine])))
        self._fix(unit)
        found = count_broken(pairs, self._columns, len(counts))
        worse = (found[homes[mine]] > counts[homes[mine]]) | self._are_never(mine, constraints)
        for name, column in kept.items():
            self._columns[name].put(mine[worse], column.take(np.flatnonzero(worse)))
        undone = homes[mine[worse]]
        found[undone] = counts[undone]
        return found

    def _swap(self, unit: Unit, one: Rows, other: Rows) -> None:
        for name in unit.names:
            data = self._columns[name].data
            data[one], data[other] = data[other], data[one]
        self._fix(unit)

    def _put(self, unit: Unit, case: Case, rows: Rows, drawn: Column) -> None:
        for name, column in unit.write(drawn, case).items():
            if name not in self._columns:
                self._columns[name] = Column(np.zeros(len(self._places), dtype=column.data.dtype), column.texts)
            known = self._columns[name]
            if known.kind != column.kind:
                raise PopulationError(unit.path, f"{name} is text in one case and a number in another")
            known.put(rows, column)

    def _list_free(self, unit: Unit) -> Rows:
        """Who gets a value of its own: whose attributes are not all fixed by their group, or given to its household."""
        if self._heads is not None and not self._alike.isdisjoint(unit.names):
            return np.unique(self._heads)
        fixed = [set(unit.names) <= set(group.attributes) for group in self._spec.groups]
        return np.flatnonzero(~np.array(fixed)[self._groups]) if any(fixed) else np.arange(len(self._places))

    def _fix(self, unit: Unit) -> None:
        if self._heads is not None and not self._alike.isdisjoint(unit.names):
            for name in unit.names:
                self._columns[name].data = self._columns[name].data[self._heads]
        for name in unit.names:
            for group, value in self._fixed[name].items():
                given = make_column([value])
                if given.kind != self._columns[name].kind:
                    where = f"groups[{group}].attributes.{name}"
                    raise PopulationError(
                        where, f"{value!r} is a {given.kind}, the attribute is a {self._columns[name].kind}"
                    )
                rows = np.flatnonzero(self._groups == group)
                self._columns[name].put(rows, given.take(np.zeros(len(rows), dtype=np.int64)))

    def _meets(self, name: str, wanted: Any, rows: Rows) -> Numbers:
        """Whether rows meet a condition; who has nothing yet does not."""
        if name in self._columns:
            return self._columns[name].meets(rows, wanted)
        one = np.zeros(1, dtype=np.int64)
        met = np.zeros(len(self._spec.groups), dtype=bool)
        for group, value in self._fixed[name].items():
            met[group] = make_column([value]).meets(one, wanted)[0]
        return met[self._groups[rows]]

    def _are_never(self, rows: Rows, constraints: Sequence[ConstraintSpec]) -> Numbers:
        found = np.zeros(len(rows), dtype=bool)
        for constraint in constraints:
            met = np.ones(len(rows), dtype=bool)
            for name, wanted in constraint.never.items():
                met &= self._meets(name, wanted, rows)
            found |= met
        return found

    def _check_fixed(self, constraints: Sequence[ConstraintSpec]) -> None:
        everyone = np.arange(len(self._places))
        left = everyone[self._are_never(everyone, constraints)]
        if len(left):
            name = self._spec.groups[self._groups[left[0]]].name
            self._raise_unmet(left, constraints, f"what the group {name} fixes forces it")

    def _raise_unmet(self, rows: Rows, constraints: Sequence[ConstraintSpec], why: str) -> None:
        first = rows[:1]
        broken = next(each for each in constraints if self._are_never(first, [each])[0])
        where = f"constraints[{self._spec.constraints.index(broken)}]"
        raise PopulationError(where, f"{broken.describe()}: {len(rows):,} agents cannot be otherwise: {why}")


def _list_fixed(spec: PopulationSpec, name: str) -> dict[int, Any]:
    """Place of a group -> the value that it fixes."""
    return {place: group.attributes[name] for place, group in enumerate(spec.groups) if name in group.attributes}
