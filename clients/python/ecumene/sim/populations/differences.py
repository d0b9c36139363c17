"""What parts the members of a household: which pairs there are, and which of them are not as they must be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ecumene.sim.populations.columns import Column, meet_numbers
from ecumene.sim.populations.errors import PopulationError
from ecumene.sim.populations.households import Homes
from ecumene.sim.populations.streams import Numbers
from ecumene.sim.specs.households import ROLE, DifferenceSpec


@dataclass(frozen=True)
class Pairs:
    """Whom a difference is about.

    Attributes:
        spec: the difference.
        path: where it stands in the spec.
        of, minus: the places of the two of each pair.
        homes: their household, from 0 within the stretch.
    """

    spec: DifferenceSpec
    path: str
    of: Numbers
    minus: Numbers
    homes: Numbers

    def find_broken(self, columns: Mapping[str, Column]) -> Numbers:
        """For each pair, whether it is not as it must be. Raises PopulationError: these are no numbers."""
        column = columns[self.spec.attribute]
        if column.texts is not None:
            raise PopulationError(f"{self.path}.attribute", f"{self.spec.attribute} is text: it has no differences")
        return ~meet_numbers(column.data[self.of] - column.data[self.minus], self.spec.bounds)


def list_pairs(differences: Sequence[DifferenceSpec], homes: Homes) -> list[Pairs]:
    """All pairs of each difference."""
    found = []
    roles = homes.columns[ROLE] if differences else None
    first = homes.numbers[0] if len(homes.numbers) else 0
    everyone = np.arange(len(homes.numbers))
    for place, spec in enumerate(differences):
        assert roles is not None
        ones, others = (everyone[roles.meets(everyone, role)] for role in (spec.of, spec.minus))
        where = homes.numbers[ones]
        begins = np.searchsorted(where, homes.numbers[others], side="left")
        counts = np.searchsorted(where, homes.numbers[others], side="right") - begins
        minus = np.repeat(others, counts)
        within = np.arange(len(minus)) - np.repeat(np.cumsum(counts) - counts, counts)
        of = ones[np.repeat(begins, counts) + within]
        found.append(Pairs(spec, f"households.differences[{place}]", of, minus, homes.numbers[minus] - first))
    return found


def count_broken(pairs: Sequence[Pairs], columns: Mapping[str, Column], homes: int) -> Numbers:
    """For each household, how many of its pairs are not as they must be."""
    counts = np.zeros(homes, dtype=np.int64)
    for each in pairs:
        counts += np.bincount(each.homes[each.find_broken(columns)], minlength=homes)
    return counts


def list_broken(pairs: Sequence[Pairs], columns: Mapping[str, Column]) -> Numbers:
    """The places of all who are in a pair that is not as it must be, ascending."""
    ends = [end[each.find_broken(columns)] for each in pairs for end in (each.of, each.minus)]
    return np.unique(np.concatenate(ends)) if ends else np.zeros(0, dtype=np.int64)
