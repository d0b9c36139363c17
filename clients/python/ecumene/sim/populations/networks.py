"""Draws social networks, in columns: whom an edge joins follows from the seed, the network and the edge alone.

A network has no direction, no edge twice, and none from somebody to themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ecumene.client.spaces import Graph
from ecumene.sim.populations.columns import read_arrow
from ecumene.sim.populations.distributions import read_columns, read_table
from ecumene.sim.populations.errors import PopulationError
from ecumene.sim.populations.population import Population
from ecumene.sim.populations.streams import Numbers, draw_uniform
from ecumene.sim.specs.households import HOUSEHOLD
from ecumene.sim.specs.networks import HomophilySpec, NetworkSpec, ScaleFreeSpec, SmallWorldSpec

DRAWS_MAX = 100
"""So often an edge that is there already is drawn again; then it is left out."""


@dataclass(frozen=True)
class Network:
    """Who knows whom.

    Attributes:
        agents: their ids.
        edges: places of the two agents of each edge, the lower one first; sorted. Shape (edges, 2).
    """

    agents: pa.Array
    edges: Numbers

    @property
    def degrees(self) -> Numbers:
        """The neighbours of each agent."""
        return np.bincount(self.edges.ravel(), minlength=len(self.agents))

    def tabulate(self) -> pa.Table:
        """The edges as a table: `from` and `to`, ids of agents."""
        ends = [self.agents.take(pa.array(self.edges[:, end])) for end in (0, 1)]
        return pa.table(ends, names=["from", "to"])

    def to_space(self) -> Graph:
        """The graph on which agents may be placed; the node of an agent has its id as name."""
        return Graph(len(self.agents), self.edges.tolist(), names=self.agents.to_pylist())


def build_networks(specs: Mapping[str, NetworkSpec], population: Population, seed: int) -> dict[str, Network]:
    """The networks of a population, by name. Raises PopulationError: one cannot be drawn."""
    agents = population.name_rows(np.arange(len(population)))
    return {
        name: Network(agents, sort_edges(draw_edges(spec, population, seed, name), len(population)))
        for name, spec in specs.items()
    }


def draw_edges(spec: NetworkSpec, population: Population, seed: int, name: str) -> Numbers:
    """The edges of one network, in any order and direction."""
    size = len(population)
    stream = f"network/{name}"
    if spec.small_world is not None:
        return draw_small_world(spec.small_world, size, seed, stream)
    if spec.scale_free is not None:
        return draw_scale_free(spec.scale_free, size, seed, stream)
    if spec.homophily is not None:
        return draw_homophily(spec.homophily, population, seed, stream)
    if spec.household:
        return join_households(population)
    return read_edges(spec, population, f"networks.{name}")


def draw_small_world(spec: SmallWorldSpec, size: int, seed: int, stream: str) -> Numbers:
    """A ring in the order of the agents, each edge of which keeps its first end and may get another second one."""
    steps = np.arange(1, min(spec.neighbours // 2, (size - 1) // 2) + 1)
    start = np.repeat(np.arange(size), len(steps))
    end = (start + np.tile(steps, size)) % max(size, 1)
    moved = draw_uniform(seed, f"{stream}/moved", np.arange(len(start))) < spec.rewired

    def move(edges: Numbers, attempt: int) -> Numbers:
        return _pick(draw_uniform(seed, f"{stream}#{attempt}", edges), size)

    return _draw_apart(start, end, moved, size, move)


def draw_scale_free(spec: ScaleFreeSpec, size: int, seed: int, stream: str) -> Numbers:
    """Each newcomer's edges lead to ends of earlier edges, all equally likely, so to everybody by their neighbours.

    Where an end is itself such a choice it is followed to where it leads (Sanders and Schulz 2016). The first agents
    know each other all. An edge that a newcomer has already is left out.
    """
    first = min(spec.edges + 1, size)
    seeds = np.argwhere(np.triu(np.ones((first, first), dtype=bool), 1))
    newcomers = np.repeat(np.arange(first, size), spec.edges)
    # Ends of all edges in a row: those of the first ones, then newcomer and choice in turn.
    known, edges = 2 * len(seeds), np.arange(len(newcomers))
    before = known + 2 * spec.edges * (edges // spec.edges)  # not those of the newcomer itself
    chosen = _pick(draw_uniform(seed, stream, edges), before)
    open_ends = np.arange(len(chosen))
    while len(open_ends):
        at = chosen[open_ends]
        open_ends = open_ends[(at >= known) & ((at - known) % 2 == 1)]
        chosen[open_ends] = chosen[(chosen[open_ends] - known) // 2]
    ends = np.where(chosen < known, 0, newcomers[np.maximum(chosen - known, 0) // 2] if len(newcomers) else 0)
    flat = seeds.ravel()
    ends[chosen < known] = flat[chosen[chosen < known]]
    return np.concatenate((seeds, np.column_stack((newcomers, ends))))


def draw_homophily(spec: HomophilySpec, population: Population, seed: int, stream: str) -> Numbers:
    """Edges from everybody in turn, each to somebody alike or to anybody."""
    size = len(population)
    alike = _code_alike(spec, population)
    count = min(round(size * spec.neighbours / 2), size * (size - 1) // 2)
    edges = np.arange(count)
    start = edges % max(size, 1)
    order = np.argsort(alike, kind="stable")
    begins = np.concatenate(([0], np.cumsum(np.bincount(alike))))
    is_alike = draw_uniform(seed, f"{stream}/alike", edges) < spec.alike

    def choose(edges: Numbers, attempt: int) -> Numbers:
        uniform = draw_uniform(seed, f"{stream}#{attempt}", edges)
        kind = alike[start[edges]]
        own = order[begins[kind] + _pick(uniform, begins[kind + 1] - begins[kind])]
        return np.where(is_alike[edges], own, _pick(uniform, size))

    return _draw_apart(start, start.copy(), np.ones(count, dtype=bool), size, choose)


def join_households(population: Population) -> Numbers:
    """All who live together, two by two: their ids follow each other."""
    assert population.profiles is not None
    numbers = population.profiles.column(HOUSEHOLD).to_numpy()
    found = []
    for step in range(1, len(numbers)):
        of = np.flatnonzero(numbers[step:] == numbers[:-step])
        if not len(of):
            break
        found.append(np.column_stack((of, of + step)))
    return np.concatenate(found) if found else np.zeros((0, 2), dtype=np.int64)


def read_edges(spec: NetworkSpec, population: Population, path: str) -> Numbers:
    """The edges of a file. Raises PopulationError: it is none, or names somebody who is not there."""
    table = read_table(spec.file, path)
    found = read_columns(table, ["from", "to"], path)
    ends = []
    for name, column in found.items():
        if column.texts is None:
            places = column.data
        else:
            known = {agent: place for place, agent in enumerate(population.name_agents())}
            places = np.array([known.get(text, -1) for text in column.texts])[column.data]
        outside = (places < 0) | (places >= len(population)) | (places != np.floor(places))
        if outside.any():
            told = table.column(name)[int(np.argmax(outside))].as_py()
            raise PopulationError(f"{path}.file", f"{told!r} in column {name!r} is no agent")
        ends.append(places.astype(np.int64))
    return np.column_stack(ends)


def sort_edges(edges: Numbers, size: int) -> Numbers:
    """Each edge once, its lower end first, in order; none from somebody to themselves."""
    low, high = edges.min(axis=1), edges.max(axis=1)
    keys = np.sort(low[low < high] * size + high[low < high])  # a fifth of what np.unique takes
    keys = keys[np.diff(keys, prepend=-1) > 0]
    return np.column_stack((keys // size, keys % size))


def _draw_apart(
    start: Numbers, end: Numbers, drawn: Numbers, size: int, choose: Callable[[Numbers, int], Numbers]
) -> Numbers:
    """Edges whose second ends are chosen where `drawn`, again and again where an edge would be a loop or twice."""

    def write_keys(edges: Numbers) -> Numbers:
        return np.minimum(start[edges], end[edges]) * size + np.maximum(start[edges], end[edges])

    settled = np.flatnonzero(~drawn)
    known = np.sort(write_keys(settled))
    waiting = np.flatnonzero(drawn)
    for attempt in range(DRAWS_MAX):
        if not len(waiting):
            break
        end[waiting] = choose(waiting, attempt)
        keys, first = np.unique(write_keys(waiting), return_index=True)  # of equals the earlier edge stays
        at = np.searchsorted(known, keys)
        is_new = keys // size != keys % size
        inside = np.flatnonzero(at < len(known))
        is_new[inside] &= known[at[inside]] != keys[inside]
        known = np.insert(known, at[is_new], keys[is_new])
        is_settled = np.zeros(len(waiting), dtype=bool)
        is_settled[first[is_new]] = True
        settled = np.concatenate((settled, waiting[is_settled]))
        waiting = waiting[~is_settled]
    return np.column_stack((start, end))[settled]


def _pick(uniform: Numbers, count: Numbers | int) -> Numbers:
    return np.minimum((uniform * count).astype(np.int64), np.maximum(count, 1) - 1)


def _code_alike(spec: HomophilySpec, population: Population) -> Numbers:
    """A number for each agent, the same for those who are alike."""
    assert population.profiles is not None
    codes = np.zeros(len(population), dtype=np.int64)
    for name in spec.by:
        column = read_arrow(population.profiles.column(name))
        assert column is not None
        values, inverse = np.unique(column.data, return_inverse=True)
        codes = np.unique(codes * len(values) + inverse, return_inverse=True)[1]
    return codes
