"""Reads of a space: who is near, how far it is, everybody's neighbours.

What is outside the space, or nowhere, is an error and never an empty answer. A step looks at a bounded number of
entries (`space_looks_max`); everybody's neighbours, where they are many, are found piece by piece (`neighbour_tables`,
`neighbour_columns`).
"""

from math import inf
from typing import Final

from env_server.model.errors import Exhausted, InvalidRequest, NotFound, OutOfRange, Reason, WrongState
from env_server.model.frames import DistanceRead, NearbyPage, NeighbourTable
from env_server.model.limits import Limits
from env_server.model.names import check_count
from env_server.model.operations import Distance, Nearby, Neighbours
from env_server.model.ports import Near, SpaceIndex
from env_server.model.spaces import LOOKS_FREE, Graph, Grid, Plane, Position, Space
from env_server.state_tree.nodes import Node
from env_server.state_tree.reads.listings import Slices, SlowRead
from env_server.state_tree.reads.neighbour_columns import find_nearest, find_within
from env_server.state_tree.reads.neighbour_tables import (
    ROWS_AT_ONCE_MAX,
    Find,
    Table,
    check_weight,
    find_in_slices,
)
from env_server.state_tree.tree import Tree

_LOOKS_AT_ONCE_MAX: Final = 32_768
"""What the rows found in one step look at together, about; where it is more, they are found in slices."""


class Looks:
    """What the questions of one frame have looked at. One may look at much, and a frame has thousands."""

    def __init__(self, limits: Limits) -> None:
        self.count = 0
        self._limits = limits

    def check(self) -> None:
        """Lets one more question be asked.

        Raises:
            Exhausted: RATE_LIMITED: those before it looked at more than one may.
        """
        maximum = self._limits.space_looks_max
        if self.count > maximum:
            problem = f"the frame's questions to spaces look at more than space_looks_max = {maximum}"
            raise Exhausted.of(Reason.RATE_LIMITED, "space_looks_max", maximum, problem, self._limits.retry_delay_ms)

    def add(self, looked: int) -> None:
        """One looked at so much."""
        self.count += max(looked - LOOKS_FREE, 0)


def read_nearby(tree: Tree, node: Node, key: str, ask: Nearby, looks: Looks) -> NearbyPage:
    """Who is near the entry of `key`, or a position.

    Raises:
        NotFound: SPACE_NOT_FOUND, ENTRY_NOT_FOUND.
        InvalidRequest: INVALID_POSITION, INVALID_FIELD.
        WrongState: NOT_PLACED.
        LimitExceeded: space_looks_max, page_items_max.
        Exhausted: as `Looks.check`.
    """
    looks.check()
    limits, index = tree.limits, _index(node)
    check_count(ask.limit, "page_items_max", limits)
    wanted = ask.limit or limits.page_items_max
    if sum((ask.radius is not None, bool(ask.nearest), ask.box is not None, ask.adjacent)) != 1:
        raise _invalid("query.nearby", "exactly one of radius, nearest, box and adjacent must be set")
    if ask.box is not None:
        if key or ask.position is not None:
            raise _invalid("query.nearby.box", "excludes a key and a position")
        position = None
    else:
        if bool(key) == (ask.position is not None):
            raise _invalid("query.nearby.position", "exactly one of a key and a position must be given")
        position = ask.position if ask.position is not None else _position(tree, node, key)
    try:
        near = _find_near(index, position, ask, bool(key), limits)
    finally:
        looks.add(index.looked)
    # An index that has them at hand spares a look at each entry, somewhere in memory.
    places = index.places() if ask.box is None else None
    keys = [other for _, other in near]
    distances = [distance for distance, _ in near] if ask.box is None else []
    if places is None:
        entries = node.entries
        places = [entries[other].position or () for other in keys[: wanted + 1]]
    if key and key in keys:
        own = keys.index(key)
        del keys[own], distances[own], places[own : own + 1]
    if ask.nearest:
        del keys[ask.nearest :], distances[ask.nearest :], places[ask.nearest :]
    more = len(keys) > wanted
    del keys[wanted:], distances[wanted:], places[wanted:]
    return NearbyPage(keys, distances, places, more, tree.revision)


def read_distance(tree: Tree, node: Node, ask: Distance, looks: Looks) -> DistanceRead:
    """How far it is between two entries or positions.

    Raises:
        OutOfRange: UNREACHABLE.
        NotFound, InvalidRequest, WrongState, LimitExceeded, Exhausted: as `read_nearby`.
    """
    looks.check()
    index = _index(node)
    ends = []
    for name, position, key in (("from", ask.from_position, ask.from_key), ("to", ask.to_position, ask.to_key)):
        if bool(key) == (position is not None):
            raise _invalid(f"query.distance.{name}", "exactly one of a key and a position must be given")
        ends.append(index.check(position) if position is not None else _position(tree, node, key))
    try:
        distance = index.distance(ends[0], ends[1], hops=ask.hops)
        way = index.way(ends[0], ends[1], hops=ask.hops) if distance < inf else ()
    finally:
        if isinstance(_space(node).shape, Graph):  # others look at nobody, and tell what somebody else looked at
            looks.add(2 * index.looked)
    if distance == inf:
        told = {"path": node.path, "from": str(ends[0]), "to": str(ends[1])}
        raise OutOfRange(Reason.UNREACHABLE, f"no way leads from {ends[0]} to {ends[1]}", metadata=told)
    return DistanceRead(distance, way, tree.revision)


def read_neighbours(tree: Tree, node: Node, ask: Neighbours, looks: Looks) -> NeighbourTable | SlowRead:
    """The neighbours of entries, of all that are somewhere when none is named.

    Raises:
        LimitExceeded: message_bytes_max: the answer would be too large; space_looks_max: one row looks at too much;
            neighbours_looks_max: all rows do.
        NotFound, InvalidRequest, WrongState, Exhausted: as `read_nearby`.
    """
    looks.check()
    index, limits, revision = _index(node), tree.limits, tree.revision
    check_count(ask.nearest, "page_items_max", limits)
    find = _finder(ask)
    if len(set(ask.keys)) != len(ask.keys):
        raise _invalid("query.neighbours.keys", "must be different")
    asked = {key: _position(tree, node, key) for key in ask.keys}
    check_weight(len(asked) or len(index), index.dimensions, 0, limits)
    if len(asked or node.entries) <= ROWS_AT_ONCE_MAX:
        rows = asked or {key: entry.position for key, entry in sorted(node.entries.items()) if entry.position}
        table = Table(node.entries, index, find, ask.nearest, limits)
        looked = 0
        try:
            for key, position in rows.items():
                table.ask(key, position)
                looked += index.looked
                if looked > _LOOKS_AT_ONCE_MAX:
                    break
            else:
                return table.told(list(rows), revision)
        finally:
            looks.add(looked)
    space = node.declaration.space
    assert space is not None
    radius = _radius_of(ask, space)

    def begin() -> Slices:
        apart = index.apart()
        vicinities = None if radius is None else apart.vicinities(radius)
        entries = node.entries.copy()
        if vicinities is not None:
            return find_within(vicinities, apart.dimensions, entries, asked, limits, revision)
        if ask.nearest and isinstance(space.shape, Grid | Plane):
            return find_nearest(apart, find, ask.nearest, entries, asked, limits, revision)
        return find_in_slices(apart, find, entries, asked, ask.nearest, limits, revision)

    return SlowRead(begin, len(node.entries))


def _finder(ask: Neighbours) -> Find:
    """How one row is found."""
    if sum((ask.radius is not None, bool(ask.nearest), ask.adjacent)) != 1:
        raise _invalid("query.neighbours", "exactly one of radius, nearest and adjacent must be set")
    if ask.radius is not None:
        radius = ask.radius
        return lambda index, position: index.within(position, radius, hops=ask.hops)
    if ask.adjacent:
        return lambda index, position: index.adjacent(position)
    return lambda index, position: index.nearest(position, ask.nearest + 1, hops=ask.hops)


def _radius_of(ask: Neighbours, space: Space) -> float | None:
    """Within which neighbours are looked for, where that is how they are."""
    if ask.radius is not None and not ask.hops:
        return ask.radius
    return 1.0 if ask.adjacent and isinstance(space.shape, Grid) else None


def _find_near(index: SpaceIndex, position: Position | None, ask: Nearby, is_entry: bool, limits: Limits) -> list[Near]:
    """Who is near, an entry that is asked about included."""
    if position is None:
        assert ask.box is not None
        return [(0.0, other) for other in index.in_box(ask.box)]
    if ask.radius is not None:
        return index.within(position, ask.radius, hops=ask.hops)
    if ask.adjacent:
        return index.adjacent(position)
    check_count(ask.nearest, "page_items_max", limits)
    return index.nearest(position, ask.nearest + is_entry, hops=ask.hops)


def _index(node: Node) -> SpaceIndex:
    if node.space is None:
        raise NotFound(Reason.SPACE_NOT_FOUND, path=node.path)
    return node.space


def _space(node: Node) -> Space:
    space = node.declaration.space
    assert space is not None
    return space


def _position(tree: Tree, node: Node, key: str) -> Position:
    """Where the entry is."""
    entry = node.entries.get(key)
    if entry is None:
        raise tree.nodes.absent(node, key)
    if entry.position is None:
        told = {"path": node.path, "key": key}
        raise WrongState(Reason.NOT_PLACED, f"entry {key!r} of {node.path} has no position", metadata=told)
    return entry.position


def _invalid(field: str, problem: str) -> InvalidRequest:
    return InvalidRequest(Reason.INVALID_FIELD, field, problem)
