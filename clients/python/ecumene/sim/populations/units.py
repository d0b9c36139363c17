"""What is drawn at once: an attribute, or the attributes of a joint table; and in which order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ecumene.sim.populations.columns import Column
from ecumene.sim.populations.distributions import Source, make_source
from ecumene.sim.populations.errors import PopulationError
from ecumene.sim.populations.joint_tables import JointTable, make_table
from ecumene.sim.populations.streams import Numbers
from ecumene.sim.specs.attributes import ConstraintSpec
from ecumene.sim.specs.population import PopulationSpec

Rows = Numbers


@dataclass(frozen=True)
class Case:
    """Where a source holds: all of `when` is met, and none of the cases before."""

    when: Mapping[str, Any]
    source: Source


@dataclass(frozen=True)
class Unit:
    """One draw.

    Attributes:
        stream: its random numbers.
        path: where it stands in the spec.
        names: the attributes that it gives.
        cases: what it draws from.
        needs: attributes that have to be there before.
    """

    stream: str
    path: str
    names: tuple[str, ...]
    cases: tuple[Case, ...]
    needs: frozenset[str]

    def split(self, rows: Rows, meets: Callable[[str, Any, Rows], Numbers]) -> Iterator[tuple[Case, Rows]]:
        """The rows of each case. Raises PopulationError: one meets none."""
        for case in self.cases:
            met = np.ones(len(rows), dtype=bool)
            for name, wanted in case.when.items():
                met &= meets(name, wanted, rows)
            yield case, rows[met]
            rows = rows[~met]
        if len(rows):
            raise PopulationError(
                f"{self.path}.table", f"{len(rows):,} agents meet no case; one without when takes all others"
            )

    def write(self, drawn: Column, case: Case) -> dict[str, Column]:
        """The attributes of what was drawn."""
        if isinstance(case.source, JointTable):
            return {name: case.source.columns[name].take(drawn.data) for name in self.names}
        return {self.names[0]: drawn}


def list_units(spec: PopulationSpec) -> list[Unit]:
    """All draws of a population, in an order in which each finds what it needs.

    The attribute that a constraint names last comes after the others of it. Raises PopulationError: there is no such
    order, or a file is none.
    """
    units = []
    for place, table in enumerate(spec.tables):
        path = f"tables[{place}]"
        names = tuple(table.columns.values())
        units.append(Unit(f"table/{'/'.join(names)}", path, names, (Case({}, make_table(table, path)),), frozenset()))
    for name, attribute in spec.attributes.items():
        path = f"attributes.{name}"
        if attribute.table is None:
            cases = [Case({}, make_source(attribute, path))]
        else:
            cases = [
                Case(case.when, make_source(case, f"{path}.table[{at}]")) for at, case in enumerate(attribute.table)
            ]
        units.append(Unit(f"attribute/{name}", path, (name,), tuple(cases), frozenset(attribute.given)))
    home = () if spec.households is None else spec.households.list_attributes()
    return order_units(units, spec.constraints, home)


def order_units(units: Sequence[Unit], constraints: Sequence[ConstraintSpec], home: Sequence[str] = ()) -> list[Unit]:
    """Units after those that they need; otherwise as they come. `home`: attributes that are there before all.

    Raises PopulationError: some need each other.
    """
    needs = {unit.stream: set(unit.needs) - set(unit.names) for unit in units}
    for constraint in constraints:
        last = next(unit for unit in units if list(constraint.never)[-1] in unit.names)
        needs[last.stream] |= set(constraint.never) - set(last.names)
    ordered: list[Unit] = []
    known: set[str] = set(home)
    waiting = list(units)
    while waiting:
        ready = next((unit for unit in waiting if needs[unit.stream] <= known), None)
        if ready is None:
            stuck = ", ".join(name for unit in waiting for name in unit.names)
            told = "need each other, by given or as the last one of a constraint: one of them has to come first"
            raise PopulationError(waiting[0].path, f"{stuck} {told}")
        waiting.remove(ready)
        ordered.append(ready)
        known |= set(ready.names)
    return ordered
