"""Whom a background is made for: an agent, and those of its attributes that are told."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ecumene.sim.populations.streams import Numbers
from ecumene.sim.populations.telling import Value
from ecumene.sim.specs.backgrounds import BackgroundsSpec


@dataclass(frozen=True, slots=True)
class Person:
    """One agent of a population.

    Attributes:
        place: in the population, from 0.
        attributes: what is told of it, in the order of the spec.
    """

    place: int
    agent: str
    group: str
    attributes: Mapping[str, Value]

    @property
    def told(self) -> str:
        """The attributes as JSON: equal people, equal text."""
        return json.dumps(dict(self.attributes), ensure_ascii=False)


def list_people(spec: BackgroundsSpec, profiles: pa.Table, groups: tuple[str, ...], codes: Numbers) -> Iterator[Person]:
    """Who has a background, in the order of the population.

    `profiles`: a row an agent, `agent` and a column an attribute; `codes`: the place of the group of each.
    """
    names = spec.choose_attributes(name for name in profiles.column_names if name != "agent")
    wanted = np.array([not spec.groups or group in spec.groups for group in groups])
    places = np.flatnonzero(wanted[codes])
    table = profiles.take(places)
    agents = table.column("agent").to_pylist()
    columns = [_read_values(table.column(name)) for name in names]
    rows = zip(*columns, strict=True)
    for place, agent, values in zip(places.tolist(), agents, rows, strict=True):
        yield Person(place, agent, groups[codes[place]], dict(zip(names, values, strict=True)))


def _read_values(column: pa.ChunkedArray) -> list[Value]:
    """Numbers as they are told: a whole one without a point, any other in six digits."""
    values: list[Value] = column.to_pylist()
    return [_shorten(value) if isinstance(value, float) else value for value in values]


def _shorten(value: float) -> float | int:
    return int(value) if value.is_integer() else float(f"{value:.6g}")
