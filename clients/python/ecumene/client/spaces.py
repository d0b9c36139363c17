"""Spaces as they are declared: their shapes, and the regions and distances in them that make events."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import Any, Literal

from ecumene.client.clocks import refuse_field
from ecumene.client.space_reasons import InvalidPositionError

Position = float | Sequence[float]
"""(column, row) on a grid, (x, y) on a plane, (longitude, latitude) in degrees on the earth, the number of a node."""

NeighbourhoodKind = Literal["moore", "von_neumann", "hex"]


@dataclass(frozen=True, slots=True)
class Grid:
    """Cells (column, row), whole numbers from 0.

    Distances count steps: `moore` also across corners, `von_neumann` across edges only; `hex` has six neighbours, odd
    rows are shifted right by half a cell.
    """

    width: int
    height: int
    neighbourhood: NeighbourhoodKind = "moore"
    torus: bool = False
    """The last column is next to the first one, the last row to the first one."""
    capacity: int = 0
    """Entries that a cell may hold; 0 = any number."""

    def wrap(self, position: Sequence[float]) -> tuple[int, int]:
        """The cell that a walk over the edge of a torus comes to; elsewhere the cell that the position lies in."""
        column, row = map(math.floor, position)
        return (column % self.width, row % self.height) if self.torus else (column, row)


@dataclass(frozen=True, slots=True)
class Plane:
    """Points (x, y) within bounds, distances Euclidean. On a torus the upper bounds are the lower ones again."""

    x_min: float
    y_min: float
    x_max: float
    y_max: float
    torus: bool = False

    def wrap(self, position: Sequence[float]) -> tuple[float, float]:
        """The point that a walk over the edge of a torus comes to; elsewhere the point as it is."""
        x, y = position
        if not self.torus:
            return (x, y)
        return (_wrap(x, self.x_min, self.x_max), _wrap(y, self.y_min, self.y_max))


@dataclass(frozen=True, slots=True)
class Geo:
    """The earth (WGS84): (longitude, latitude) in degrees, distances in metres along the geodesic."""

    def wrap(self, position: Sequence[float]) -> tuple[float, float]:
        """The place that a walk across 180 degrees, or over a pole, comes to: longitudes from -180, below 180."""
        longitude, latitude = position
        latitude = _wrap(latitude, -180.0, 180.0)
        if abs(latitude) > 90.0:
            longitude, latitude = longitude + 180.0, (180.0 if latitude > 0 else -180.0) - latitude
        return (_wrap(longitude, -180.0, 180.0), latitude)


@dataclass(frozen=True)
class Graph:
    """Nodes, numbered from 0, and edges between them: (from, to), or (from, to, weight); without one it is 1.

    `Graph.between` makes one of names, `Graph.of` one of a networkx graph.
    """

    nodes: int
    edges: Sequence[tuple[int, int] | tuple[int, int, float]] = ()
    directed: bool = False
    names: Sequence[str] = ()
    """One a node, unique; or none."""
    capacity: int = 0
    """Entries that a node may hold; 0 = any number."""

    def __post_init__(self) -> None:
        # Equal graphs shall be equal however they were written down.
        edges = tuple((edge[0], edge[1], float(edge[2]) if len(edge) > 2 else 1.0) for edge in self.edges)
        object.__setattr__(self, "edges", edges)
        object.__setattr__(self, "names", tuple(self.names))
        if self.names and len(self._numbers) != self.nodes:
            raise refuse_field(f"names: {len(self.names)} ({len(self._numbers)} different) for {self.nodes} nodes")

    @classmethod
    def between(
        cls,
        edges: Iterable[tuple[str, str] | tuple[str, str, float]],
        *,
        names: Iterable[str] = (),
        directed: bool = False,
        capacity: int = 0,
    ) -> Graph:
        """A graph of edges between names. Nodes are numbered as they come: those of `names`, then of the edges."""
        numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
        numbered = [
            (numbers.setdefault(edge[0], len(numbers)), numbers.setdefault(edge[1], len(numbers)), *edge[2:])
            for edge in edges
        ]
        return cls(len(numbers), numbered, directed, tuple(numbers), capacity)

    @classmethod
    def of(cls, graph: Any, *, weight: str = "weight", capacity: int = 0) -> Graph:
        """A graph of networkx; `weight` names the attribute of edges that is their length, where they have it.

        Nodes 0 to n - 1 keep their numbers. Others are numbered in the graph's order and named as `str` shows them.

        Raises:
            InvalidFieldError: two nodes are shown alike.
        """
        nodes = list(graph.nodes)
        is_numbered = set(nodes) == set(range(len(nodes))) and all(type(node) is int for node in nodes)
        numbers = {node: node if is_numbered else number for number, node in enumerate(nodes)}
        edges = [(numbers[a], numbers[b], float(data.get(weight, 1.0))) for a, b, data in graph.edges(data=True)]
        names = () if is_numbered else tuple(map(str, nodes))
        return cls(len(nodes), edges, bool(graph.is_directed()), names, capacity)

    def number(self, name: str) -> int:
        """The node of a name.

        Raises:
            InvalidPositionError: there is none.
        """
        if name not in self._numbers:
            raise InvalidPositionError.of(f"no node is named {name!r}")
        return self._numbers[name]

    def name(self, number: float) -> str:
        """The name of a node; without names, its number.

        Raises:
            InvalidPositionError: there is no such node.
        """
        if number != int(number) or not 0 <= number < self.nodes:
            raise InvalidPositionError.of(f"no node is {number}: there are {self.nodes}, from 0")
        return self.names[int(number)] if self.names else str(int(number))

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.names)}


Space = Grid | Plane | Geo | Graph
"""Where the entries of an environment may be; its shape stays once it is declared."""


@dataclass(frozen=True, slots=True)
class Box:
    """All positions between two corners, both included.

    On the earth, or on a torus, a lower bound may be greater than the upper one: the box then reaches across the seam.
    """

    low: Position
    high: Position

    def __post_init__(self) -> None:
        object.__setattr__(self, "low", as_position(self.low))
        object.__setattr__(self, "high", as_position(self.high))


@dataclass(frozen=True, slots=True)
class Disc:
    """All positions within a distance of one."""

    centre: Position
    radius: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "centre", as_position(self.centre))


@dataclass(frozen=True, slots=True)
class NodeSet:
    """Nodes of a graph."""

    nodes: Sequence[int]

    def __post_init__(self) -> None:
        object.__setattr__(self, "nodes", tuple(self.nodes))


@dataclass(frozen=True, slots=True)
class Region:
    """A named area: an entry that comes to be inside makes a REGION_ENTERED event, then REGION_LEFT."""

    name: str
    area: Box | Disc | NodeSet


@dataclass(frozen=True, slots=True)
class Proximity:
    """A named distance: two entries that come within it make a PROXIMITY_ENTERED event each, else PROXIMITY_LEFT.

    One of the two must match `key_glob` and the other `other_key_glob`; "" = any.
    """

    name: str
    distance: float
    key_glob: str = ""
    other_key_glob: str = ""


def as_position(given: Any) -> tuple[float, ...]:
    """The coordinates of a position: of a sequence of numbers, or of one number, a node.

    Raises:
        InvalidPositionError: it is none.
    """
    if isinstance(given, Real):
        given = (given,)
    elif isinstance(given, str):
        raise InvalidPositionError.of(f"a position is made of numbers; a named node is graph.number({given!r})")
    try:
        position = tuple(map(float, given))
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidPositionError.of(f"a position is made of numbers, such as (3, 4): {error}") from error
    if not 1 <= len(position) <= 2:
        raise InvalidPositionError.of(f"a position has one or two coordinates, not {len(position)}")
    return position


def _wrap(number: float, low: float, high: float) -> float:
    wrapped = low + (number - low) % (high - low)
    return wrapped if wrapped < high else low
