"""Shortest ways in a graph, with exact lengths.

Lengths are whole numbers: weights are doubles, so whole multiples of one power of two, and are added as such. A sum
does not depend on the order of its terms, then, and is rounded once, at the end. Of each length the last bits count the
edges: of several shortest ways the one of fewest edges is the shorter one, and none goes in circles that cost nothing.
"""

from collections.abc import Iterator
from heapq import heappop, heappush
from math import isfinite
from typing import Final

from env_server.model.errors import LimitExceeded
from env_server.model.spaces import Graph
from env_server.space.checking import refuse_field

_Edges = dict[int, list[tuple[int, int]]]
"""By node: the nodes to which an edge leads, ascending, and its length; the cheapest of parallel ones.

Nodes without an edge are left out: a graph takes memory for what was sent of it, and not for a number.
"""
_NO_EDGES: Final[list[tuple[int, int]]] = []


class Roads:
    """The edges of a graph. `looked` is what the last search looked at: nodes and edges."""

    def __init__(self, graph: Graph, looks_max: int) -> None:
        """Raises InvalidRequest, INVALID_FIELD: an edge that is none, or weights beyond what a double can add up to."""
        _check_edges(graph)
        self._edge_bits = graph.nodes.bit_length()
        self._per_weight = max((weight.as_integer_ratio()[1] for _, _, weight in graph.edges), default=1)
        self._forth = self._edges(graph, back=False)
        self._back = self._edges(graph, back=True) if graph.directed else self._forth
        self.looks_max = looks_max
        self.looked = 0

    def spread(
        self, node: int, *, hops: bool, back: bool = False, looks_max: float | None = None
    ) -> Iterator[tuple[int, int]]:
        """Nodes by their distance from one, or to it if `back`, nearest first, with exact lengths; what can be reached.

        `looks_max`: None = that of all searches.

        Raises:
            LimitExceeded: as soon as more was looked at than may be.
        """
        looks_max = self.looks_max if looks_max is None else looks_max
        edges = self._back if back else self._forth
        self.looked = 0
        done: set[int] = set()
        heap = [(0, node)]
        while heap:
            length, node = heappop(heap)
            if node in done:
                continue
            done.add(node)
            leading = edges.get(node, _NO_EDGES)
            self.looked += 1 + len(leading)
            if self.looked > looks_max:
                raise LimitExceeded("space_looks_max", int(looks_max), self.looked)
            yield length, node
            for other, edge in leading:
                if other not in done:
                    heappush(heap, (length + (1 if hops else edge), other))

    def distance(self, length: int, *, hops: bool) -> float:
        """What an exact length is to the caller."""
        return float(length) if hops else (length >> self._edge_bits) / self._per_weight

    def way(self, one: int, other: int, *, hops: bool) -> tuple[int, ...]:
        """See `SpaceIndex`."""
        left: dict[int, int] = {}
        for length, node in self.spread(other, hops=hops, back=True):
            left[node] = length
            if node == one:
                break
        else:
            return ()
        way = [one]
        while way[-1] != other:
            here = way[-1]
            way.append(
                next(
                    node
                    for node, edge in self._forth[here]
                    if node in left and left[node] + (1 if hops else edge) == left[here]
                )
            )
        return tuple(way)

    def _edges(self, graph: Graph, *, back: bool) -> _Edges:
        edges: dict[int, dict[int, int]] = {}
        for one, other, weight in graph.edges:
            numerator, denominator = weight.as_integer_ratio()
            length = numerator * (self._per_weight // denominator) << self._edge_bits | 1
            for start, end in (
                ((one, other), (other, one)) if not graph.directed else ((other, one) if back else (one, other),)
            ):
                ends = edges.setdefault(start, {})
                ends[end] = min(length, ends.get(end, length))
        return {start: sorted(ends.items()) for start, ends in edges.items()}


def _check_edges(graph: Graph) -> None:
    total = 0.0
    for number, (one, other, weight) in enumerate(graph.edges):
        for node in (one, other):
            if type(node) is not int or not 0 <= node < graph.nodes:
                raise refuse_field(f"space.graph.edges[{number}]", f"{node} is no node from 0 to {graph.nodes - 1}")
        if type(weight) not in (int, float) or not isfinite(weight) or weight < 0:
            raise refuse_field(f"space.graph.weights[{number}]", f"{weight} is no weight: finite, not negative")
        total += weight
    if not isfinite(total):
        raise refuse_field("space.graph.weights", "together they are more than a double can tell")
