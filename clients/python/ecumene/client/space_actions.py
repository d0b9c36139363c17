"""Declared spaces, moves and questions to spaces, as wire messages, and declarations read from them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from numbers import Real
from typing import Any

from env_api.v1 import operations_pb2, space_pb2, values_pb2

from ecumene.client.clocks import refuse_field, refusing
from ecumene.client.space_reasons import InvalidPositionError
from ecumene.client.spaces import (
    Box,
    Disc,
    Geo,
    Graph,
    Grid,
    NeighbourhoodKind,
    NodeSet,
    Plane,
    Position,
    Proximity,
    Region,
    Space,
    as_position,
)

_NEIGHBOURHOODS: dict[NeighbourhoodKind, int] = {"moore": 1, "von_neumann": 2, "hex": 3}
_NEIGHBOURHOODS_BY_NUMBER: dict[int, NeighbourhoodKind] = {n: kind for kind, n in _NEIGHBOURHOODS.items()}


def move(position: Position | None) -> operations_pb2.Update:
    """Move an entry; None = it leaves the space."""
    return operations_pb2.Update(move=operations_pb2.Move(position=() if position is None else as_position(position)))


def fill_space(
    space: Space | None, regions: Sequence[Region] = (), proximities: Sequence[Proximity] = ()
) -> space_pb2.Space | None:
    """A declaration of a space; None = there is none.

    Raises:
        InvalidFieldError: what is declared has no form in a world.
    """
    if space is None:
        if regions or proximities:
            raise refuse_field("regions and proximities need a space: give space=")
        return None
    message = space_pb2.Space(
        regions=[fill_region(region) for region in regions],
        proximities=[fill_proximity(proximity) for proximity in proximities],
    )
    with refusing("space"):
        _fill_shape(message, space)
    return message


def fill_region(region: Region) -> space_pb2.Region:
    """A declaration of a region. Raises as `fill_space`."""
    with refusing(f"region {region.name!r}"):
        message = space_pb2.Region(name=region.name)
    area = region.area
    if isinstance(area, Box):
        message.box.CopyFrom(fill_box(area))
    elif isinstance(area, Disc):
        with refusing(f"region {region.name!r}"):
            message.disc.CopyFrom(space_pb2.Disc(centre=as_position(area.centre), radius=area.radius))
    elif isinstance(area, NodeSet):
        with refusing(f"region {region.name!r}"):
            message.nodes.nodes.extend(area.nodes)
        message.nodes.SetInParent()
    else:
        raise refuse_field(f"the area of region {region.name!r} is a Box, a Disc or a NodeSet, not {area!r}")
    return message


def fill_proximity(proximity: Proximity) -> space_pb2.Proximity:
    """A declaration of a proximity. Raises as `fill_space`."""
    with refusing(f"proximity {proximity.name!r}"):
        return space_pb2.Proximity(
            name=proximity.name,
            distance=proximity.distance,
            key_glob=proximity.key_glob,
            other_key_glob=proximity.other_key_glob,
        )


def fill_box(box: Box) -> space_pb2.Box:
    """The corners of a box."""
    return space_pb2.Box(low=as_position(box.low), high=as_position(box.high))


def read_space(environment: values_pb2.Environment) -> Space | None:
    """The space of an environment as declared, without what is in it."""
    message = environment.space
    kind = message.WhichOneof("shape") if environment.HasField("space") else None
    if kind == "grid":
        grid = message.grid
        neighbourhood = _NEIGHBOURHOODS_BY_NUMBER.get(grid.neighbourhood, "moore")
        return Grid(grid.width, grid.height, neighbourhood, grid.torus, grid.capacity)
    if kind == "plane":
        plane = message.plane
        return Plane(plane.x_min, plane.y_min, plane.x_max, plane.y_max, plane.torus)
    if kind == "graph":
        graph = message.graph
        weights = graph.weights or [1.0] * len(getattr(graph, "from"))
        edges = tuple(zip(getattr(graph, "from"), graph.to, weights, strict=True))
        return Graph(graph.nodes, edges, graph.directed, tuple(graph.names), graph.capacity)
    return Geo() if kind == "geo" else None


def read_region(message: space_pb2.Region) -> Region:
    """A region as declared."""
    kind = message.WhichOneof("area")
    if kind == "disc":
        return Region(message.name, Disc(tuple(message.disc.centre), message.disc.radius))
    if kind == "nodes":
        return Region(message.name, NodeSet(tuple(message.nodes.nodes)))
    return Region(message.name, Box(tuple(message.box.low), tuple(message.box.high)))


def read_proximity(message: space_pb2.Proximity) -> Proximity:
    """A proximity as declared."""
    return Proximity(message.name, message.distance, message.key_glob, message.other_key_glob)


def flatten_positions(positions: Any, count: int) -> tuple[list[float], int]:
    """Coordinates one after the other, and how many a position has; of one position each of `count` entries.

    `positions` are positions, or the same flat: a list, anything else to go through, an array of the standard library
    or of numpy.

    Raises:
        InvalidPositionError: those are not so many positions, or not all of one space.
    """
    if hasattr(positions, "tolist"):
        positions = positions.tolist()
    try:
        positions = list(positions)
    except TypeError as error:
        raise InvalidPositionError.of(f"positions of many are a sequence: {error}") from error
    if not count or not positions or isinstance(positions[0], Real):
        try:
            positions = list(map(float, positions))
        except (TypeError, ValueError, OverflowError) as error:
            raise InvalidPositionError.of(f"coordinates are numbers: {error}") from error
    else:
        placed = [as_position(position) for position in positions]
        if len({len(position) for position in placed}) > 1:
            raise InvalidPositionError.of("positions of one space have equally many coordinates")
        positions = list(chain.from_iterable(placed))
        if len(placed) != count:
            raise InvalidPositionError.of(f"{len(placed)} positions for {count} keys")
    dimensions = len(positions) // count if count else 1
    if len(positions) != dimensions * count or not 1 <= dimensions <= 2:
        raise InvalidPositionError.of(f"{len(positions)} coordinates for {count} keys: one or two each")
    return positions, dimensions


def _fill_shape(message: space_pb2.Space, space: Space) -> None:
    if isinstance(space, Grid):
        if space.neighbourhood not in _NEIGHBOURHOODS:
            raise ValueError(f"neighbourhood {space.neighbourhood!r} is none of {', '.join(_NEIGHBOURHOODS)}")
        grid = space_pb2.Grid(width=space.width, height=space.height, torus=space.torus, capacity=space.capacity)
        grid.neighbourhood = _NEIGHBOURHOODS[space.neighbourhood]  # type: ignore[assignment]
        message.grid.CopyFrom(grid)
    elif isinstance(space, Plane):
        plane = space_pb2.Plane(
            x_min=space.x_min, y_min=space.y_min, x_max=space.x_max, y_max=space.y_max, torus=space.torus
        )
        message.plane.CopyFrom(plane)
    elif isinstance(space, Graph):
        columns = list(zip(*space.edges, strict=True)) or [(), (), ()]
        graph = message.graph
        graph.nodes, graph.directed, graph.capacity = space.nodes, space.directed, space.capacity
        getattr(graph, "from").extend(columns[0])
        graph.to.extend(columns[1])
        if any(weight != 1.0 for weight in columns[2]):
            graph.weights.extend(columns[2])
        graph.names.extend(space.names)
        graph.SetInParent()
    elif isinstance(space, Geo):
        message.geo.SetInParent()
    else:
        raise TypeError("a space is a Grid, a Plane, a Geo or a Graph")
