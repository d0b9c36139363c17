"""Spaces, regions and proximities from the wire. What lies in them is checked by the space itself."""

import math
from collections.abc import Sequence

from env_api.v1 import space_pb2

from env_server.model.errors import InvalidRequest, Reason
from env_server.model.limits import Limits
from env_server.model.names import check_count, check_segment
from env_server.model.spaces import (
    Area,
    Box,
    Disc,
    Geo,
    Graph,
    Grid,
    Neighbourhood,
    NodeSet,
    Plane,
    Proximity,
    Region,
    Shape,
    Space,
)


def decode_space(message: space_pb2.Space, limits: Limits, field: str) -> Space:
    """What an environment declares of its space.

    Raises:
        InvalidRequest: INVALID_FIELD.
        LimitExceeded: space_bytes_max, regions_max, proximities_max.
    """
    check_count(message.ByteSize(), "space_bytes_max", limits)
    return Space(
        _decode_shape(message, field),
        decode_regions(message.regions, limits, f"{field}.regions"),
        decode_proximities(message.proximities, limits, f"{field}.proximities"),
    )


def decode_regions(messages: Sequence[space_pb2.Region], limits: Limits, field: str) -> tuple[Region, ...]:
    """Regions of different names. Raises as `decode_space`."""
    check_count(len(messages), "regions_max", limits)
    _check_names([message.name for message in messages], limits, field)
    return tuple(Region(message.name, _decode_area(message, field)) for message in messages)


def decode_proximities(messages: Sequence[space_pb2.Proximity], limits: Limits, field: str) -> tuple[Proximity, ...]:
    """Proximities of different names. Raises as `decode_space`."""
    check_count(len(messages), "proximities_max", limits)
    _check_names([message.name for message in messages], limits, field)
    return tuple(
        Proximity(message.name, message.distance, message.key_glob, message.other_key_glob) for message in messages
    )


def decode_box(message: space_pb2.Box, field: str) -> Box:
    """A box; its corners are checked by the space.

    Raises:
        InvalidRequest: INVALID_FIELD: it lacks a corner.
    """
    if not message.low or not message.high:
        raise InvalidRequest(Reason.INVALID_FIELD, field, "must have both corners")
    return Box(tuple(message.low), tuple(message.high))


def _decode_shape(message: space_pb2.Space, field: str) -> Shape:
    match message.WhichOneof("shape"):
        case "grid":
            grid = message.grid
            try:
                neighbourhood = Neighbourhood(grid.neighbourhood or Neighbourhood.MOORE)
            except ValueError:
                raise InvalidRequest(Reason.INVALID_FIELD, f"{field}.grid.neighbourhood", "is unknown") from None
            return Grid(grid.width, grid.height, neighbourhood, grid.torus, grid.capacity)
        case "plane":
            plane = message.plane
            return Plane(plane.x_min, plane.y_min, plane.x_max, plane.y_max, plane.torus)
        case "geo":
            return Geo()
        case "graph":
            return _decode_graph(message.graph, f"{field}.graph")
        case _:
            raise InvalidRequest(Reason.INVALID_FIELD, f"{field}.shape", "must be set")


def _decode_graph(graph: space_pb2.Graph, field: str) -> Graph:
    starts, ends, weights = getattr(graph, "from"), graph.to, graph.weights
    if len(starts) != len(ends) or (weights and len(weights) != len(starts)):
        problem = f"{len(starts)} from, {len(ends)} to and {len(weights)} weights are not as many"
        raise InvalidRequest(Reason.INVALID_FIELD, field, problem)
    if not all(map(math.isfinite, weights)):
        raise InvalidRequest(Reason.INVALID_FIELD, f"{field}.weights", "must be finite")
    edges = tuple(zip(starts, ends, weights or [1.0] * len(starts), strict=True))
    return Graph(graph.nodes, edges, graph.directed, tuple(graph.names), graph.capacity)


def _decode_area(message: space_pb2.Region, field: str) -> Area:
    match message.WhichOneof("area"):
        case "box":
            return decode_box(message.box, f"{field}.box")
        case "disc":
            return Disc(tuple(message.disc.centre), message.disc.radius)
        case "nodes":
            return NodeSet(frozenset(message.nodes.nodes))
        case _:
            raise InvalidRequest(Reason.INVALID_FIELD, f"{field}.area", "must be set")


def _check_names(names: list[str], limits: Limits, field: str) -> None:
    for name in names:
        check_segment(name, limits, Reason.INVALID_FIELD, f"{field}.name")
    if len(set(names)) != len(names):
        raise InvalidRequest(Reason.INVALID_FIELD, f"{field}.name", "must be unique")
