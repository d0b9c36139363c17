"""The table of a run's population is written once, and a population that has changed is refused."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from ecumene.sim.populations.errors import PopulationError
from ecumene.sim.populations.population import Population, build_population
from ecumene.sim.runs.profiles import PROFILES_NAME, keep_networks, keep_profiles
from ecumene.sim.specs.population import PopulationSpec


def build(names: Path) -> Population:
    """Four agents who have names."""
    attributes = {"name": {"file": str(names)}, "age": {"template": "age"}}
    groups = [{"name": "a", "agent": "random", "count": 3}, {"name": "b", "agent": "random", "count": 1}]
    return build_population(PopulationSpec.model_validate({"groups": groups, "attributes": attributes}), 1)


def test_a_run_keeps_its_population(tmp_path: Path) -> None:
    names = tmp_path / "names.txt"
    names.write_text("Ünal\n東京\n", encoding="utf-8")
    population = build(names)
    path = keep_profiles(population, tmp_path)
    assert path == keep_profiles(build(names), tmp_path)  # as when the run is gone on with
    kept = pq.read_table(path)
    assert kept.column_names == ["agent", "group", "name", "age"]
    assert kept.column("agent").to_pylist() == population.name_agents()
    assert kept.column("name").to_pylist() == population.profiles.column("name").to_pylist()  # type: ignore[union-attr]
    assert sorted(kept.column("group").to_pylist()) == ["a", "a", "a", "b"]
    assert [each.name for each in tmp_path.glob("profiles*")] == [PROFILES_NAME]


def test_a_population_that_has_changed_is_refused(tmp_path: Path) -> None:
    names = tmp_path / "names.txt"
    names.write_text("A\nB\n")
    keep_profiles(build(names), tmp_path)
    names.write_text("A\nC\n")
    with pytest.raises(PopulationError, match="have the files of its spec changed"):
        keep_profiles(build(names), tmp_path)


def test_one_without_attributes_has_its_groups(tmp_path: Path) -> None:
    spec = PopulationSpec.model_validate({"groups": [{"name": "a", "agent": "random", "count": 2}]})
    kept = pq.read_table(keep_profiles(build_population(spec, 1), tmp_path))
    assert kept.to_pylist() == [{"agent": "agent-000001", "group": "a"}, {"agent": "agent-000002", "group": "a"}]


def test_networks_stand_in_a_folder_by_name(tmp_path: Path) -> None:
    groups = [{"name": "a", "agent": "random", "count": 9}]
    networks = {"friends": {"small_world": {"neighbours": 2, "rewired": 0}}}
    spec = PopulationSpec.model_validate({"groups": groups, "networks": networks})
    for _ in range(2):  # the second time as a run that is gone on with
        keep_networks(spec, build_population(spec, 1), 1, tmp_path)
    kept = pq.read_table(tmp_path / "networks" / "friends.parquet").to_pylist()
    assert len(kept) == 9
    assert kept[0] == {"from": "agent-000001", "to": "agent-000002"}


def test_a_run_without_networks_has_no_folder_for_them(tmp_path: Path) -> None:
    spec = PopulationSpec.model_validate({"groups": [{"name": "a", "agent": "random", "count": 2}]})
    keep_networks(spec, build_population(spec, 1), 1, tmp_path)
    assert not list(tmp_path.iterdir())
