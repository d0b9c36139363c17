"""The table of a run's population, in its directory: who each agent is, whatever becomes of the files of the spec."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq

from ecumene.sim.populations.errors import PopulationError
from ecumene.sim.populations.files import write_table
from ecumene.sim.populations.networks import build_networks
from ecumene.sim.populations.population import Population
from ecumene.sim.specs.population import PopulationSpec

PROFILES_NAME = "profiles.parquet"


NETWORKS_NAME = "networks"


def keep_networks(spec: PopulationSpec, population: Population, seed: int, directory: Path) -> None:
    """Write the edges of each network into a folder of the run's directory. Raises PopulationError, OSError."""
    folder = directory / NETWORKS_NAME
    for name, network in build_networks(spec.networks, population, seed).items():
        folder.mkdir(exist_ok=True)
        write_table(network.tabulate(), folder / f"{name}.parquet")


def keep_profiles(population: Population, directory: Path) -> Path:
    """Write the table (agent, group, then one column an attribute), or check that it is the one that stands there.

    Raises PopulationError: the run began with another; OSError.
    """
    path = directory / PROFILES_NAME
    table = population.tabulate()
    if path.exists():
        if not pq.read_table(path).cast(table.schema).equals(table):
            raise PopulationError(
                "attributes", f"the population is not the one in {path}: have the files of its spec changed?"
            )
        return path
    write_table(table, path)
    return path
