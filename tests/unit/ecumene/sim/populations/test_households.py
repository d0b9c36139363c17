"""Households are whole, make exactly the population, and their members fit each other."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from ecumene.sim.populations.errors import PopulationError
from ecumene.sim.populations.fit import compare
from ecumene.sim.populations.networks import build_networks
from ecumene.sim.populations.population import build_groups, build_population, draw_profiles
from ecumene.sim.specs.population import PopulationSpec

TYPES = {
    "alone": {"share": "3/10", "members": {"adult": 1}},
    "couple": {"share": "3/10", "members": {"adult": 1, "partner": 1}},
    "family": {"share": "4/10", "members": {"adult": 1, "partner": 1, "child": {1: "1/2", 2: "1/2"}}},
    "never": {"share": 0, "members": {"adult": 7}},
}
AGES = {
    "given": ["role"],
    "table": [
        {"when": {"role": "child"}, "integers": {"low": 0, "high": 17}},
        {"normal": {"mean": 48, "deviation": 15, "at_least": 18, "at_most": 95}, "whole": True},
    ],
}
DIFFERENCES = [
    {"attribute": "age", "of": "adult", "minus": "child", "at_least": 18, "at_most": 45},
    {"attribute": "age", "of": "adult", "minus": "partner", "above": -10, "below": 10},
]


def make_spec(size: int = 1_000, sampling: str = "quota", **fields: Any) -> PopulationSpec:
    """Households of the types above, unless others are given."""
    given: dict[str, Any] = {
        "size": size,
        "sampling": sampling,
        "groups": [{"name": "all", "agent": "random", "share": 1}],
        "households": {"types": TYPES, "alike": ["town"], "differences": DIFFERENCES},
        "attributes": {"age": AGES, "town": {"categories": {"here": "1/4", "größer": "3/4"}}, "x": {"values": [1, 2]}},
        "constraints": [{"never": {"role": "child", "x": 2}}],
    }
    return PopulationSpec.model_validate(given | fields)


def list_homes(spec: PopulationSpec, seed: int) -> list[list[dict[str, Any]]]:
    """Households with their people, in order."""
    profiles = build_population(spec, seed).profiles
    assert profiles is not None
    homes: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in profiles.to_pylist():
        homes[row["household"]].append(row)
    assert list(homes) == list(range(1, len(homes) + 1)), "numbers follow each other, and so do their people"
    return list(homes.values())


@pytest.mark.parametrize("sampling", ["quota", "random"])
@pytest.mark.parametrize("size", [1, 2, 7, 1_000, 4_321])
def test_all_live_somewhere_with_people_who_fit(size: int, sampling: str, seed: int) -> None:
    homes = list_homes(make_spec(size, sampling), seed)
    assert sum(map(len, homes)) == size
    for home in homes:
        roles = Counter(row["role"] for row in home)
        assert roles["adult"] == 1 and roles["partner"] <= 1 and roles["child"] <= 2
        assert roles["partner"] or not roles["child"]
        assert len({row["town"] for row in home}) == 1
        ages = {role: [row["age"] for row in home if row["role"] == role] for role in roles}
        (adult,) = ages["adult"]
        assert all(18 <= adult - child <= 45 and child < 18 for child in ages.get("child", ()))
        assert all(-10 < adult - partner < 10 for partner in ages.get("partner", ()))
        assert all(row["x"] == 1 for row in home if row["role"] == "child")


def test_quotas_of_households_and_of_values_stay_exact(seed: int) -> None:
    spec = make_spec(10_000)
    found = compare(spec, build_population(spec, seed), seed)
    assert [each.name for each in found.attributes] == ["household", "household", "age", "age", "town", "x"]
    assert all(each.deviation is not None and each.deviation < 2.5 for each in found.attributes), found.attributes
    assert {label for label, _, _ in found.attributes[1].bars} >= {"1 adult", "1 adult, 1 partner, 2 child"}


def test_drawn_at_random_households_follow_their_shares(seed: int) -> None:
    spec = make_spec(3_000, "random", households={"types": TYPES}, constraints=[])
    values = []
    for one in range(40):
        people, members, *_ = compare(spec, build_population(spec, (seed + one) % 2**63), 0).attributes
        values += [people.p, members.p]
    assert sum(p <= 0.01 for p in values) <= 6 and max(values) > 0.5


@pytest.mark.parametrize("sampling", ["quota", "random"])
def test_any_stretches_are_the_same_population(sampling: str, seed: int) -> None:
    spec = make_spec(1_003, sampling)
    whole = build_population(spec, seed).profiles
    groups = build_groups(spec, seed)
    for workers in (1, 16):
        bounds = np.linspace(0, 1_003, workers + 1).astype(int).tolist()
        parts = [draw_profiles(spec, seed, groups, *stretch) for stretch in itertools.pairwise(bounds)]
        assert pa.concat_tables(parts).to_pydict() == whole.to_pydict()  # type: ignore[union-attr]
    assert draw_profiles(spec, seed, groups, 7, 7).num_rows == 0
    assert build_population(spec, seed).hash() == build_population(spec, seed).hash()
    assert build_population(spec, seed + 1).hash() != build_population(spec, seed).hash()


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    """Families of 1 to 4 people, scattered over the file, with weights; one of weight 0."""
    people = {
        "a": [("Kind", 4), ("Mutter", 30)],
        "b": [("Frau", 80)],
        "c": [("Vater", 40), ("Mutter", 44)],
        "z": [("Z", 1)],
    }
    people["d"] = [("Kind", 1), ("Kind", 2), ("Kind", 3), ("Vater", 25)]
    weights = {"a": 2, "b": 3, "c": 1, "d": 1, "z": 0}
    rows = [(home, role, age, weights[home]) for home, some in people.items() for role, age in some]
    rows = rows[::2] + rows[1::2]
    path = tmp_path / "Haushalte.csv"
    columns = dict(zip(("home", "wer", "jahre", "mal"), map(list, zip(*rows, strict=True)), strict=True))
    pa.csv.write_csv(pa.table(columns), path)
    return path


@pytest.mark.parametrize("sampling", ["quota", "random"])
def test_households_of_a_sample_are_drawn_whole(sample: Path, sampling: str, seed: int) -> None:
    columns = {"wer": "role", "jahre": "age"}
    households = {"file": str(sample), "household": "home", "columns": columns, "weight": "mal"}
    spec = make_spec(5_000, sampling, households=households, attributes={}, constraints=[])
    homes = Counter(tuple(sorted((row["role"], row["age"]) for row in home)) for home in list_homes(spec, seed))
    known = {
        (("Kind", 4), ("Mutter", 30)): 2 / 7,
        (("Frau", 80),): 3 / 7,
        (("Mutter", 44), ("Vater", 40)): 1 / 7,
        (("Kind", 1), ("Kind", 2), ("Kind", 3), ("Vater", 25)): 1 / 7,
    }
    assert homes.keys() == known.keys()
    total = homes.total()
    for form, share in known.items():
        width = 3 if sampling == "quota" else 5 * (share * (1 - share) * total) ** 0.5
        assert abs(homes[form] - share * total) < width


def test_who_lives_together_is_a_network(seed: int) -> None:
    spec = make_spec(500, networks={"homes": {"household": True}})
    population = build_population(spec, seed)
    network = build_networks(spec.networks, population, seed)["homes"]
    assert population.profiles is not None
    numbers = population.profiles["household"].to_numpy()
    assert (numbers[network.edges[:, 0]] == numbers[network.edges[:, 1]]).all()
    sizes = np.bincount(numbers)
    assert len(network.edges) == int((sizes * (sizes - 1) // 2).sum())
    singles = {"types": {"alone": TYPES["alone"] | {"share": 1}}}
    alone = make_spec(3, households=singles, attributes={}, constraints=[])
    assert len(build_networks(spec.networks, build_population(alone, seed), seed)["homes"].edges) == 0


@pytest.mark.parametrize(
    ("size", "households", "said"),
    [
        (7, {"types": {"pair": {"share": 1, "members": {"one": 2}}}}, "people make no 7 agents; take a size such as 8"),
        (9, {"types": {"none": {"share": 1, "members": {"one": {0: 0.5, 1: 0.5}}}}}, "may have no member at all"),
        (9, {"types": TYPES, "differences": [DIFFERENCES[1] | {"attribute": "town"}]}, "town is text"),
        (
            900,
            {"types": TYPES, "differences": [DIFFERENCES[0] | {"at_least": 120, "at_most": 130}]},
            "age of adult minus that of child: at least 120 and at most 130: 156 households do not fit",
        ),
    ],
)
def test_what_cannot_be_is_an_error_that_says_why(size: int, households: dict[str, Any], said: str) -> None:
    attributes = make_spec().attributes if "differences" in households else {}
    spec = make_spec(size, households=households, attributes=attributes, constraints=[])
    with pytest.raises(PopulationError, match=r"population\.households") as caught:
        build_population(spec, 1)
    assert said in str(caught.value)


def test_of_a_sample_a_household_has_one_weight_and_the_columns_are_there(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("home,w\n1,1\n1,2\n", encoding="utf-8")
    given = {"file": str(path), "household": "home", "weight": "w"}
    for changed, said in (({}, "people of household 1 have several weights"), ({"household": "hid"}, "'hid'")):
        spec = make_spec(9, households=given | changed, attributes={}, constraints=[])
        with pytest.raises(PopulationError) as caught:
            build_population(spec, 1)
        assert said in str(caught.value)
