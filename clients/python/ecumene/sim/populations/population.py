"""From a population's spec to its agents: the same agents on any number of workers.

An agent's group and attributes follow from the seed and its place, never from the order of calls, so that any worker
can build any stretch of it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from hashlib import blake2b

import numpy as np
import pyarrow as pa

from ecumene.sim.backgrounds.attaching import attach_backgrounds
from ecumene.sim.populations.households import build_homes
from ecumene.sim.populations.sampling import Sampler
from ecumene.sim.populations.streams import draw_uniform, mix
from ecumene.sim.populations.units import list_units
from ecumene.sim.specs.population import GroupSpec, PopulationSpec

ID_DIGITS_MIN = 6
STREAM = "population"
"""Of the numbers by which agents get their groups."""

PROFILE_SCHEMA = pa.schema(
    [
        pa.field("agent", pa.string(), nullable=False),
        pa.field("group", pa.dictionary(pa.int32(), pa.string()), nullable=False),
        pa.field("class", pa.dictionary(pa.int32(), pa.string()), nullable=False),
        pa.field("parameters", pa.dictionary(pa.int32(), pa.string()), nullable=False),
        pa.field("persona", pa.dictionary(pa.int32(), pa.string()), nullable=False),
    ]
)


@dataclass(frozen=True)
class Population:
    """The agents of a run.

    Attributes:
        groups: the groups, as in the spec.
        codes: for each agent, the place of its group in `groups`.
        profiles: for each agent a row, in the same order: its id as `agent`, then one column an attribute, text as a
            dictionary, then `background` if there are backgrounds. None = it has no attributes.
    """

    groups: tuple[GroupSpec, ...]
    codes: np.ndarray
    profiles: pa.Table | None = None

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def counts(self) -> dict[str, int]:
        """Group -> number of its agents."""
        found = np.bincount(self.codes, minlength=len(self.groups))
        return {group.name: int(count) for group, count in zip(self.groups, found, strict=True)}

    def name_agents(self, start: int = 0, stop: int | None = None) -> list[str]:
        """The ids of a stretch: `agent-000001` is the first; longer numbers only beyond 999,999 agents."""
        first, last = start + 1, (len(self) if stop is None else min(stop, len(self))) + 1
        return [f"agent-{number:0{self._digits}d}" for number in range(first, last)]

    def name_rows(self, rows: np.ndarray) -> pa.Array:
        """The ids of the agents at some places, as a text column: of millions, without a Python string each."""
        import pyarrow.compute as pc  # it takes a while, and most who import this module name nobody

        numbers = pc.cast(pa.array(np.asarray(rows, dtype=np.int64) + 1), pa.string())
        return pc.binary_join_element_wise("agent-", pc.ascii_lpad(numbers, self._digits, "0"), "")

    def build_profiles(self, start: int = 0, stop: int | None = None) -> pa.RecordBatch:
        """The profiles of a stretch, in PROFILE_SCHEMA; parameters are one JSON object with all defaults."""
        codes = pa.array(self.codes[start:stop], pa.int32())
        columns = [
            [group.name for group in self.groups],
            [group.agent for group in self.groups],
            [dump_parameters(group) for group in self.groups],
            [group.persona for group in self.groups],
        ]
        agents = self.name_rows(np.arange(start, start + len(codes)))
        coded = [pa.DictionaryArray.from_arrays(codes, pa.array(values, pa.string())) for values in columns]
        return pa.RecordBatch.from_arrays([agents, *coded], schema=PROFILE_SCHEMA)

    def tabulate(self) -> pa.Table:
        """All agents in their order: agent, group, then one column an attribute; text of few values as dictionaries."""
        base = self.build_profiles()
        columns = {"agent": base.column("agent"), "group": base.column("group")}
        if self.profiles is not None:
            columns |= {name: self.profiles.column(name) for name in self.profiles.column_names[1:]}
        return pa.table(columns)

    def dump_chunks(self, chunk_rows: int = 65_536) -> Iterator[bytes]:
        """All profiles as Arrow IPC streams of at most `chunk_rows` agents, each readable alone."""
        for start in range(0, len(self), chunk_rows):
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, PROFILE_SCHEMA) as writer:
                writer.write_batch(self.build_profiles(start, start + chunk_rows))
            yield sink.getvalue().to_pybytes()

    def hash(self) -> str:
        """A hash of all ids, groups, classes, parameters, personas and attributes: equal populations, equal hash."""
        described = [[g.name, g.agent, dump_parameters(g), g.persona] for g in self.groups]
        digest = blake2b(json.dumps([len(self), described]).encode(), digest_size=16)
        digest.update(np.ascontiguousarray(self.codes, dtype="<i4").tobytes())
        for column in () if self.profiles is None else self.profiles.columns:
            for chunk in column.chunks:
                plain = chunk.dictionary_decode() if pa.types.is_dictionary(chunk.type) else chunk
                digest.update(pa.record_batch([plain], names=["column"]).serialize())
        return digest.hexdigest()

    @property
    def _digits(self) -> int:
        return max(ID_DIGITS_MIN, len(str(len(self))))


def build_population(spec: PopulationSpec, seed: int, *, on_unit: Callable[[str], None] = lambda _: None) -> Population:
    """The population of a spec and a seed. Groups are mixed: any stretch of it resembles the whole.

    `on_unit` is told the attributes that are drawn now. Raises PopulationError: they cannot be drawn.
    """
    bare = build_groups(spec, seed)
    seed = spec.choose_seed(seed)
    if not spec.list_attributes():
        return bare
    profiles = draw_profiles(spec, seed, bare, on_unit=on_unit)
    if spec.backgrounds is not None:
        names = tuple(group.name for group in bare.groups)
        profiles = attach_backgrounds(spec.backgrounds, profiles, names, bare.codes, seed)
    return Population(bare.groups, bare.codes, profiles)


def build_groups(spec: PopulationSpec, seed: int) -> Population:
    """The same without attributes: no file is read for it."""
    return Population(spec.groups, draw_groups(spec, spec.choose_seed(seed)))


def draw_profiles(
    spec: PopulationSpec,
    seed: int,
    population: Population,
    start: int = 0,
    stop: int | None = None,
    *,
    on_unit: Callable[[str], None] = lambda _: None,
) -> pa.Table:
    """The attributes of a stretch, the same in whatever stretches the population is drawn.

    With `quota` the whole is drawn for it; with `random` all of its households. Raises PopulationError.
    """
    bounds = slice(start, len(population) if stop is None else stop)
    homes = build_homes(spec, seed, len(population))
    drawn = slice(0, len(population)) if spec.sampling == "quota" else bounds
    if homes is not None and spec.sampling == "random":
        drawn = homes.widen(bounds.start, bounds.stop)
    places = np.arange(len(population))[drawn]
    within = None if homes is None else homes.take(drawn)
    sampler = Sampler(spec, list_units(spec), seed, places, population.codes[drawn], homes=within, on_unit=on_unit)
    columns = {name: column.to_arrow() for name, column in sampler.draw().items()}
    table = pa.table({"agent": population.name_rows(places), **columns})
    return table.slice(bounds.start - drawn.start, bounds.stop - bounds.start) if drawn != bounds else table


def draw_groups(spec: PopulationSpec, seed: int) -> np.ndarray:
    """For each agent the place of its group."""
    counts = [group.count for group in spec.groups if group.count is not None]
    if not counts:
        assert spec.size is not None
        shares = normalise([group.share or Fraction(0) for group in spec.groups])
        if spec.sampling == "random":
            return draw_codes(shares, spec.size, seed)
        counts = apportion(shares, spec.size)
    ordered = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    return ordered[np.argsort(mix(seed, STREAM, np.arange(len(ordered))), kind="stable")]


def normalise(shares: Sequence[Fraction]) -> list[Fraction]:
    """Shares divided by their sum, exactly."""
    total = sum(shares, Fraction(0))
    return [share / total for share in shares]


def apportion(shares: Sequence[Fraction], size: int) -> list[int]:
    """Whole numbers that sum to `size`, each within one of its share; ties go to the earlier one.

    Largest remainders (Hamilton's method). A share of zero gets nothing.
    """
    exact = [share * size for share in shares]
    counts = [int(quota) for quota in exact]
    by_remainder = sorted(range(len(shares)), key=lambda place: counts[place] - exact[place])
    for place in by_remainder[: size - sum(counts)]:
        counts[place] += 1
    return counts


def draw_codes(shares: Sequence[Fraction], size: int, seed: int) -> np.ndarray:
    """A group for each agent, drawn independently by share; one of share zero is never drawn."""
    drawn = np.array([place for place, share in enumerate(shares) if share > 0], dtype=np.int32)
    bounds = np.cumsum([float(shares[place]) for place in drawn])[:-1]
    uniform = draw_uniform(seed, STREAM, np.arange(size))
    return drawn[np.searchsorted(bounds, uniform, side="right")]


def dump_parameters(group: GroupSpec) -> str:
    """A group's parameters as one JSON object, defaults filled in."""
    return json.dumps(group.dump_parameters(), sort_keys=True, ensure_ascii=False)
