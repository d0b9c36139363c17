"""The table of a run's population, in its directory: who each agent is, whatever becomes of the files of the spec."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ecumene.sim.populations.errors import PopulationError
from ecumene.sim.populations.population import Population

PROFILES_NAME = "profiles.parquet"


def keep_profiles(population: Population, directory: Path) -> Path:
    """Write the table (agent, group, then one column an attribute), or check that it is the one that stands there.

    Raises PopulationError: the run began with another; OSError.
    """
    path = directory / PROFILES_NAME
    table = make_table(population)
    if path.exists():
        if not pq.read_table(path).cast(table.schema).equals(table):
            raise PopulationError(
                "attributes", f"the population is not the one in {path}: have the files of its spec changed?"
            )
        return path
    unfinished = path.with_suffix(".tmp")
    pq.write_table(table, unfinished)
    unfinished.replace(path)
    return path


def make_table(population: Population) -> pa.Table:
    """All agents in their order: agent, group, attributes."""
    base = population.build_profiles()
    columns = {"agent": base.column("agent"), "group": base.column("group")}
    if population.profiles is not None:
        columns |= {name: population.profiles.column(name) for name in population.profiles.column_names[1:]}
    return pa.table(columns)
