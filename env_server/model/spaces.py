"""Spaces: where the entries of an environment may be. Declared once; regions and proximities may change later.

A position is a tuple of finite doubles, as many as the space has dimensions: (column, row) on a grid, (x, y) on a
plane, (longitude, latitude) in degrees on the earth, (node,) on a graph. Cells and nodes are whole numbers from 0.
"""

import json
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, NamedTuple

from env_server.model.values import Json

Position = tuple[float, ...]

LOOKS_FREE: Final = 256
"""Entries that a question looks at without its being meant to be much; they are in the price of an op and of a move."""


class Neighbourhood(IntEnum):
    """Which cells of a grid are next to each other; the numbers are those of the contract."""

    MOORE = 1
    """Eight: also across corners. Distance: the larger of the differences (Chebyshev)."""
    VON_NEUMANN = 2
    """Four: across edges. Distance: the sum of the differences (Manhattan)."""
    HEX = 3
    """Six; odd rows are shifted right by half a cell. Distance: steps. A torus of them has an even number of rows."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Cells in columns and rows."""

    width: int
    height: int
    neighbourhood: Neighbourhood = Neighbourhood.MOORE
    torus: bool = False
    capacity: int = 0
    """Entries that a cell may hold; 0 = any number."""


@dataclass(frozen=True, slots=True)
class Plane:
    """A rectangle, bounds included; of a torus the upper bounds are the lower ones again and not included."""

    x_min: float
    y_min: float
    x_max: float
    y_max: float
    torus: bool = False


@dataclass(frozen=True, slots=True)
class Geo:
    """The earth (WGS84): longitude in [-180, 180], latitude in [-90, 90]; distances in metres along the geodesic."""


@dataclass(frozen=True, slots=True)
class Graph:
    """Nodes 0 to `nodes` - 1 with weighted edges; a distance is the least sum of weights, or of edges."""

    nodes: int
    edges: tuple[tuple[int, int, float], ...] = ()
    directed: bool = False
    names: tuple[str, ...] = ()
    """Of the nodes, for people; empty = none have any."""
    capacity: int = 0


Shape = Grid | Plane | Geo | Graph


@dataclass(frozen=True, slots=True)
class Box:
    """All positions between two corners, both included. On the earth west may be greater than east: across 180°.

    On a torus, likewise, a lower bound may be greater than the upper one: across the seam.
    """

    low: Position
    high: Position


@dataclass(frozen=True, slots=True)
class Disc:
    """All positions within a distance of one, as the space measures it."""

    centre: Position
    radius: float


@dataclass(frozen=True, slots=True)
class NodeSet:
    """Some nodes of a graph."""

    nodes: frozenset[int]


Area = Box | Disc | NodeSet


@dataclass(frozen=True, slots=True)
class Region:
    """A named area; entries that cross its border are told of."""

    name: str
    area: Area


@dataclass(frozen=True, slots=True)
class Proximity:
    """A named distance; two entries that come within it, or leave it, are told of.

    One of the two matches `key_glob` and the other `other_key_glob`; "" = any.
    """

    name: str
    distance: float
    key_glob: str = ""
    other_key_glob: str = ""


@dataclass(frozen=True, slots=True)
class Space:
    """What an environment declares of its space; regions and proximities stand in the order of their names."""

    shape: Shape
    regions: tuple[Region, ...] = ()
    proximities: tuple[Proximity, ...] = ()
    _weight: "Weight | None" = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "regions", tuple(sorted(self.regions, key=_name)))
        object.__setattr__(self, "proximities", tuple(sorted(self.proximities, key=_name)))

    @property
    def dimensions(self) -> int:
        """Numbers in a position."""
        return 1 if isinstance(self.shape, Graph) else 2

    @property
    def capacity(self) -> int:
        """Entries that a cell or node holds; 0 = any number, as everywhere in shapes that have neither."""
        return self.shape.capacity if isinstance(self.shape, Grid | Graph) else 0

    @property
    def weight(self) -> "Weight":
        """How large it is; found out once."""
        if self._weight is None:
            object.__setattr__(self, "_weight", _weigh(self))
        assert self._weight is not None
        return self._weight


def region_document(name: str) -> Json:
    """What an event tells of a region: the same bytes for the same name, so that they can be looked for."""
    return Json.of({"region": name})


class Weight(NamedTuple):
    """About how many bytes a space takes as it is declared; never much too few."""

    shape: int
    borders: int
    """Of its regions and proximities."""


def _weigh(space: Space) -> Weight:
    shape = space.shape
    weight = 64
    if isinstance(shape, Graph):
        weight += _EDGE_BYTES * len(shape.edges) + sum(_weigh_text(name) for name in shape.names)
    borders = 0
    for region in space.regions:
        nodes = len(region.area.nodes) if isinstance(region.area, NodeSet) else 4
        borders += _PART_BYTES + _weigh_text(region.name) + _NUMBER_BYTES * nodes
    for proximity in space.proximities:
        texts = (proximity.name, proximity.key_glob, proximity.other_key_glob)
        borders += _PART_BYTES + sum(map(_weigh_text, texts))
    return Weight(weight, borders)


_EDGE_BYTES: Final = 24
_NUMBER_BYTES: Final = 12
_PART_BYTES: Final = 32
_TEXT_BYTES: Final = 2
"""Of a long text, what frames it beyond its quotes."""


def _name(part: Region | Proximity) -> str:
    return part.name


def _weigh_text(text: str) -> int:
    return len(json.dumps(text, ensure_ascii=False).encode("utf-8", "surrogatepass")) + _TEXT_BYTES
