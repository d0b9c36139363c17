"""Spaces, and what reads of them found, to messages."""

from itertools import chain

from env_api.v1 import queries_pb2, space_pb2

from env_server.model.frames import DistanceRead, NearbyPage, NeighbourTable
from env_server.model.spaces import Area, Box, Disc, Geo, Graph, Grid, NodeSet, Plane, Space


def encode_space(space: Space) -> space_pb2.Space:
    """A space with its regions and proximities."""
    message = space_pb2.Space(
        proximities=[
            space_pb2.Proximity(
                name=proximity.name,
                distance=proximity.distance,
                key_glob=proximity.key_glob,
                other_key_glob=proximity.other_key_glob,
            )
            for proximity in space.proximities
        ]
    )
    match space.shape:
        case Grid() as grid:
            message.grid.CopyFrom(
                space_pb2.Grid(
                    width=grid.width,
                    height=grid.height,
                    neighbourhood=int(grid.neighbourhood),  # type: ignore[arg-type]
                    torus=grid.torus,
                    capacity=grid.capacity,
                )
            )
        case Plane() as plane:
            message.plane.CopyFrom(
                space_pb2.Plane(
                    x_min=plane.x_min, y_min=plane.y_min, x_max=plane.x_max, y_max=plane.y_max, torus=plane.torus
                )
            )
        case Geo():
            message.geo.SetInParent()
        case Graph() as graph:
            message.graph.CopyFrom(_encode_graph(graph))
    for region in space.regions:
        _encode_area(region.area, message.regions.add(name=region.name))
    return message


def fill_nearby(message: queries_pb2.NearbyPage, page: NearbyPage) -> None:
    """Who is near, in an empty message."""
    message.keys.extend(page.keys)
    message.distances.extend(page.distances)
    message.coordinates.extend(chain.from_iterable(page.positions))
    message.more = page.more
    message.revision = page.revision


def encode_distance(read: DistanceRead) -> queries_pb2.DistanceResult:
    """How far it is."""
    return queries_pb2.DistanceResult(distance=read.distance, way=read.way, revision=read.revision)


def fill_neighbours(message: queries_pb2.NeighbourTable, table: NeighbourTable) -> None:
    """Everybody's neighbours, in an empty message."""
    message.keys.extend(table.keys)
    message.counts.extend(table.counts)
    message.neighbours.extend(table.neighbours)
    message.others.extend(table.others)
    message.coordinates.extend(chain.from_iterable(table.positions))
    message.revision = table.revision


def _encode_graph(graph: Graph) -> space_pb2.Graph:
    message = space_pb2.Graph(nodes=graph.nodes, directed=graph.directed, names=graph.names, capacity=graph.capacity)
    if graph.edges:
        starts, ends, weights = zip(*graph.edges, strict=True)
        getattr(message, "from").extend(starts)
        message.to.extend(ends)
        if any(weight != 1.0 for weight in weights):
            message.weights.extend(weights)
    return message


def _encode_area(area: Area, message: space_pb2.Region) -> None:
    match area:
        case Box():
            message.box.low.extend(area.low)
            message.box.high.extend(area.high)
        case Disc():
            message.disc.centre.extend(area.centre)
            message.disc.radius = area.radius
        case NodeSet():
            message.nodes.SetInParent()
            message.nodes.nodes.extend(sorted(area.nodes))
