"""A run's population has its backgrounds, or is told why not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from ecumene.sim.backgrounds.people import list_people
from ecumene.sim.backgrounds.records import SCHEMA
from ecumene.sim.populations.errors import PopulationError
from ecumene.sim.populations.fit import compare
from ecumene.sim.populations.population import Population, build_population
from ecumene.sim.runs.launch import write_agents
from ecumene.sim.specs.spec import RunSpec

from tests.unit.ecumene.sim.backgrounds.people import make_spec


def draw(spec: RunSpec) -> Population:
    return build_population(spec.population.model_copy(update={"backgrounds": None}), spec.seed)


def write_file(spec: RunSpec, path: Path, **changed: Any) -> None:
    """A file as if somebody had written `I am <agent>`."""
    backgrounds, population = spec.population.backgrounds, draw(spec)
    assert backgrounds is not None
    assert population.profiles is not None
    people = list_people(backgrounds, population.profiles, ("a", "b"), population.codes)
    rows = [
        {
            "agent": one.agent,
            "group": one.group,
            "name": "",
            "background": f"I am {one.agent}",
            "status": "complete",
            "missing": [],
            "remark": "",
            "tries": 1,
            "answers": 1,
            "model": "m",
            "prompt_tokens": 0,
            "completion_tokens": 0,
            "attributes": one.told,
            "key": "k",
            **changed,
        }
        for one in people
    ]
    pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), path)


def read_column(spec: RunSpec) -> list[str]:
    profiles = build_population(spec.population, spec.seed).profiles
    assert profiles is not None
    column: list[str] = profiles.column("background").to_pylist()
    return column


def test_what_was_written_is_found_by_agent_and_others_have_nothing(tmp_path: Path, seed: int) -> None:
    spec = make_spec(9, seed=seed, file=str(tmp_path / "b.parquet"), groups=["a"])
    write_file(spec, tmp_path / "b.parquet")
    population = build_population(spec.population, seed)
    names = population.name_agents()
    told = read_column(spec)
    assert [bool(text) for text in told] == [code == 0 for code in population.codes]
    mine = [f"I am {name}" for name, code in zip(names, population.codes, strict=True) if code == 0]
    assert [text for text in told if text] == mine
    assert population.hash() != draw(spec).hash()
    assert [each.name for each in compare(spec.population, population, seed).attributes] == ["age", "gender", "city"]


def test_what_a_text_lacks_stands_behind_it(tmp_path: Path) -> None:
    spec = make_spec(3, file=str(tmp_path / "b.parquet"), attributes=["age", "city"])
    write_file(spec, tmp_path / "b.parquet", background="Somebody.", missing=["city"], status="flagged")
    rows = build_population(spec.population, 1).profiles.to_pylist()  # type: ignore[union-attr]
    assert [row["background"] for row in rows] == [f"Somebody. (city: {row['city']})" for row in rows]
    write_file(spec, tmp_path / "b.parquet", background="", missing=["age", "city"], status="flagged")
    assert read_column(spec) == [f"(age: {row['age']}; city: {row['city']})" for row in rows]


def test_a_file_that_is_not_there_or_of_others_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "b.parquet"
    spec = make_spec(6, file=str(path))
    with pytest.raises(PopulationError, match="is not there: ecumene background SPEC writes them"):
        read_column(spec)
    path.write_text("none")
    with pytest.raises(PopulationError, match="cannot be read"):
        read_column(spec)
    pq.write_table(pa.table({"agent": ["a"]}), path)
    with pytest.raises(PopulationError, match="holds no backgrounds: there is no column group"):
        read_column(spec)
    write_file(make_spec(6, seed=2, file=str(path)), path)
    with pytest.raises(PopulationError, match=r"was written for other people: agent-000001 is \{"):
        read_column(spec)
    write_file(make_spec(3, file=str(path), groups=["b"]), path)
    with pytest.raises(PopulationError, match="knows no agent-"):
        read_column(spec)


def test_people_of_a_seed_of_their_own_serve_runs_of_any_seed(tmp_path: Path) -> None:
    spec = make_spec(6, file=str(tmp_path / "b.parquet"))
    own = spec.model_copy(update={"population": spec.population.model_copy(update={"seed": 1})})
    write_file(spec, tmp_path / "b.parquet")
    assert [read_column(own.model_copy(update={"seed": seed})) for seed in (1, 2)] == [read_column(spec)] * 2
    with pytest.raises(PopulationError, match="other people"):
        read_column(spec.model_copy(update={"seed": 2}))


def test_a_household_is_told_by_no_number(tmp_path: Path) -> None:
    spec = make_spec(3, mode="template").population.backgrounds
    assert spec is not None
    table = pa.table({"agent": ["x"], "household": [7], "role": ["child"], "age": [9]})
    (person,) = list_people(spec, table, ("a",), np.zeros(1, dtype=np.int32))
    assert person.attributes == {"role": "child", "age": 9}


def test_agents_are_launched_with_their_backgrounds(tmp_path: Path) -> None:
    spec = make_spec(6, mode="template")
    first, second = spec.population.groups
    groups = (first.model_copy(update={"persona": "{age}: {background}"}), second)
    population = build_population(spec.population.model_copy(update={"groups": groups}), 1)
    assert write_agents(population, 0, tmp_path / "a.arrow") == 4
    with pa.OSFile(str(tmp_path / "a.arrow"), "rb") as file:
        for row in pa.ipc.open_file(file).read_all().to_pylist():
            assert row["background"]
            assert row["persona"] == f"{row['age']}: {row['background']}"
