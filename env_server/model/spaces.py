"""Spaces: where the entries of an environment may be. Declared once; regions and proximities may change later.

A position is a tuple of finite doubles, as many as the space has dimensions: (column, row) on a grid, (x, y) on a plane,
(longitude, latitude) in degrees on the earth, (node,) on a graph. Cells and nodes are whole numbers from 0.
"""

from dataclasses import dataclass
from enum import IntEnum

Position = tuple[float, ...]


class Neighbourhood(IntEnum):
    """Which cells of a grid are next to each other; the numbers are those of the contract."""

    MOORE = 1
    """Eight: also across corners. Distance: the larger of the differences (Chebyshev)."""
    VON_NEUMANN = 2
    """Four: across edges. Distance: the sum of the differences (Manhattan)."""
    HEX = 3
    """Six; odd rows are shifted right by half a cell. Distance: steps. A torus of hexagons has an even number of rows."""


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
    """Nodes 0 to `nodes` - 1 with weighted edges; a distance is the least sum of weights, or the least number of edges."""

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
    """What an environment declares of its space."""

    shape: Shape
    regions: tuple[Region, ...] = ()
    proximities: tuple[Proximity, ...] = ()

    @property
    def dimensions(self) -> int:
        """Numbers in a position."""
        return 1 if isinstance(self.shape, Graph) else 2
