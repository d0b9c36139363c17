"""Graphs: entries at nodes, distances along edges."""

from bisect import bisect_left, insort
from collections.abc import Sequence
from copy import copy
from math import inf

from env_server.model.errors import LimitExceeded
from env_server.model.limits import Limits
from env_server.model.ports import Areas, Near, Vicinities
from env_server.model.spaces import Area, Box, Disc, Graph, Position
from env_server.space.areas import Covered, NodeAreas
from env_server.space.checking import check_count, check_radius, check_whole, finite, refuse_field
from env_server.space.roads import Roads


class GraphIndex:
    """Entries at the nodes of a graph. See `SpaceIndex` for what its methods promise."""

    dimensions = 1

    def __init__(self, graph: Graph, limits: Limits) -> None:
        """Raises InvalidRequest, INVALID_FIELD, and LimitExceeded for a graph that is none, or too large."""
        _check_graph(graph, limits)
        self._graph = graph
        self._roads = Roads(graph, limits.space_looks_max)
        self._clear()

    def _clear(self) -> None:
        self._nodes: dict[str, int] = {}
        self._crowds: dict[int, list[str]] = {}

    def apart(self) -> "GraphIndex":
        index = copy(self)
        index._roads = copy(self._roads)  # what it has looked at is its own, the edges are not
        index._clear()
        return index

    @property
    def looked(self) -> int:
        return self._roads.looked

    @property
    def looks_max(self) -> int:
        return self._roads.looks_max

    @looks_max.setter
    def looks_max(self, looks_max: int) -> None:
        self._roads.looks_max = looks_max

    def __len__(self) -> int:
        return len(self._nodes)

    def check(self, position: Position) -> Position:
        numbers = finite(position, 1)
        check_whole(numbers[0], self._graph.nodes, "node")
        return numbers

    def is_full(self, position: Position) -> bool:
        capacity = self._graph.capacity
        return bool(capacity) and len(self._crowds.get(int(position[0]), ())) >= capacity

    def put(self, key: str, position: Position) -> None:
        node = int(position[0])
        before = self._nodes.get(key)
        if before == node:
            return
        if before is not None:
            self._leave(key, before)
        self._nodes[key] = node
        crowd = self._crowds.get(node)
        if crowd is None:
            self._crowds[node] = [key]
        else:
            insort(crowd, key)

    def drop(self, key: str) -> None:
        node = self._nodes.pop(key, None)
        if node is not None:
            self._leave(key, node)

    def let_go(self, items_max: int) -> int:
        for held in (self._nodes, self._crowds):
            if held:
                count = min(items_max, len(held))
                for _ in range(count):
                    held.popitem()
                return count
        return 0

    def distance(self, one: Position, other: Position, *, hops: bool = False) -> float:
        end = int(other[0])
        for length, node in self._roads.spread(int(one[0]), hops=hops):
            if node == end:
                return self._roads.distance(length, hops=hops)
        return inf

    def way(self, one: Position, other: Position, *, hops: bool = False) -> tuple[int, ...]:
        return self._roads.way(int(one[0]), int(other[0]), hops=hops)

    def within(self, position: Position, radius: float, *, hops: bool = False) -> list[Near]:
        check_radius(radius)
        near: list[Near] = []
        for length, node in self._roads.spread(int(self.check(position)[0]), hops=hops):
            distance = self._roads.distance(length, hops=hops)
            if distance > radius:
                break
            near += [(distance, key) for key in self._at(node, None)]
        near.sort()
        return near

    def vicinities(self, radius: float) -> Vicinities | None:
        check_radius(radius)
        return None

    def nearest(self, position: Position, count: int, *, hops: bool = False) -> list[Near]:
        check_count(count)
        near: list[Near] = []
        for length, node in self._roads.spread(int(self.check(position)[0]), hops=hops):
            distance = self._roads.distance(length, hops=hops)
            # Nodes of the same distance come in no order that counts: all of them are looked at.
            if len(near) >= count and distance > near[-1][0]:
                break
            near += [(distance, key) for key in self._at(node, count)]
            if len(near) >= len(self._nodes):
                break
        near.sort()
        return near[:count]

    def places(self) -> None:
        return None

    def adjacent(self, position: Position) -> list[Near]:
        return self.within(position, 1.0, hops=True)

    def in_box(self, box: Box) -> list[str]:
        raise refuse_field("area", "a graph has no boxes")

    def accept_areas(self, areas: Sequence[Area], before: Areas | None = None) -> NodeAreas:
        assert before is None or isinstance(before, NodeAreas)
        known = before.discs if before is not None else {}
        for area in areas:
            self._check_area(area)
        # Too much is refused here, and not when somebody comes near: then all of them may have to be found.
        discs: dict[Disc, Covered] = {}
        looked = looked_now = 0
        for disc in (area for area in areas if isinstance(area, Disc)):
            if disc in discs:
                continue
            covered = known.get(disc)
            if covered is None:
                covered = self._cover(disc, self.looks_max)
                looked_now += covered.looked
            discs[disc] = covered
            looked += covered.looked
            if looked > self.looks_max:
                raise LimitExceeded("space_looks_max", self.looks_max, looked)
        return NodeAreas(areas, self._cover, discs, looked_now)

    def areas(self, areas: Sequence[Area]) -> NodeAreas:
        return NodeAreas(areas, self._cover, {})

    def _check_area(self, area: Area) -> None:
        if isinstance(area, Box):
            raise refuse_field("area", "a graph has no boxes")
        if isinstance(area, Disc):
            self.check(area.centre)
            check_radius(area.radius)
        else:
            for node in area.nodes:
                self.check((node,))

    def _cover(self, disc: Disc, looks_max: float = inf) -> Covered:
        """What a disc covers; without a bound where it was accepted once."""
        nodes = []
        for length, node in self._roads.spread(int(disc.centre[0]), hops=False, looks_max=looks_max):
            if self._roads.distance(length, hops=False) > disc.radius:
                break
            nodes.append(node)
        return Covered(nodes, self._roads.looked)

    def _at(self, node: int, count: int | None) -> list[str]:
        """The first `count` at a node."""
        crowd = self._crowds.get(node, [])[:count]
        roads = self._roads
        roads.looked += len(crowd)
        if roads.looked > roads.looks_max:
            raise LimitExceeded("space_looks_max", roads.looks_max, roads.looked)
        return crowd

    def _leave(self, key: str, node: int) -> None:
        crowd = self._crowds[node]
        del crowd[bisect_left(crowd, key)]
        if not crowd:
            del self._crowds[node]


def _check_graph(graph: Graph, limits: Limits) -> None:
    if type(graph.nodes) is not int or graph.nodes < 1:
        raise refuse_field("space.graph.nodes", f"{graph.nodes} is no number from 1")
    if graph.nodes > limits.space_nodes_max:
        raise LimitExceeded("space_nodes_max", limits.space_nodes_max, graph.nodes)
    if len(graph.edges) > limits.space_edges_max:
        raise LimitExceeded("space_edges_max", limits.space_edges_max, len(graph.edges))
    if type(graph.capacity) is not int or graph.capacity < 0:
        raise refuse_field("space.graph.capacity", f"{graph.capacity} is no number from 0")
    if graph.names and len(graph.names) != graph.nodes:
        raise refuse_field("space.graph.names", f"{len(graph.names)} names for {graph.nodes} nodes")
    if len(set(graph.names)) != len(graph.names):
        raise refuse_field("space.graph.names", "two nodes have the same name")
