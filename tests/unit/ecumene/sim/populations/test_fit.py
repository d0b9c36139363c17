"""The fit tells a population that follows its spec from one that does not, with the figures of scipy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from ecumene.sim.populations.files import write_table
from ecumene.sim.populations.fit import associate, compare, correlate, weigh_counts
from ecumene.sim.populations.fit_page import write_page
from ecumene.sim.populations.population import Population, build_population
from ecumene.sim.specs.population import PopulationSpec
from scipy import stats

ATTRIBUTES = {
    "age": {"template": "age"},
    "height": {"normal": {"mean": 170, "deviation": 9}},
    "children": {"integers": {"low": 0, "high": 3}},
    "city": {"categories": {"東京": "0.5", "<b>Łódź</b>": "0.3", "nobody's": 0, "Ågot": "0.2"}},
}


def make_spec(size: int = 5_000, sampling: str = "random", **fields: Any) -> PopulationSpec:
    """A population of one group."""
    groups = [{"name": "all", "agent": "random", "share": 1}]
    return PopulationSpec.model_validate({"size": size, "sampling": sampling, "groups": groups, **fields})


def fit(spec: PopulationSpec, seed: int) -> Any:
    """The fit of what is drawn."""
    return compare(spec, build_population(spec, seed), seed)


def test_what_is_drawn_fits_and_quotas_are_within_one(seed: int) -> None:
    for sampling in ("random", "quota"):
        found = fit(make_spec(sampling=sampling, attributes=ATTRIBUTES), seed)
        assert {each.name: each.test for each in found.attributes} == {
            "age": "chi2",
            "height": "ks",
            "children": "chi2",
            "city": "chi2",
        }
        assert min(each.p for each in found.attributes) > 1e-6
        assert all(sum(bar[1] for bar in each.bars) == each.agents == 5_000 for each in found.attributes)
        if sampling == "quota":
            assert all(each.p > 0.99 for each in found.attributes)
            assert all(each.deviation is None or each.deviation <= 1 + 1e-6 for each in found.attributes)


def test_what_follows_another_spec_does_not_fit(seed: int) -> None:
    other = {
        "age": {"integers": {"low": 0, "high": 99}},
        "height": {"normal": {"mean": 171, "deviation": 9}},
        "children": {"integers": {"low": 0, "high": 4}},
        "city": {"categories": {"東京": "0.45", "<b>Łódź</b>": "0.35", "Ågot": "0.2"}},
    }
    drawn = build_population(make_spec(attributes=other), seed)
    found = compare(make_spec(attributes=ATTRIBUTES), drawn, seed)
    assert not [each.name for each in found.attributes if each.fits]


def test_one_of_share_zero_does_not_fit_at_all(seed: int) -> None:
    spec = make_spec(10, attributes={"x": {"categories": {"a": 1, "b": 0}}})
    drawn = build_population(spec, seed)
    profiles = pa.table({"agent": drawn.name_agents(), "x": ["a"] * 9 + ["b"]})
    found = compare(spec, Population(drawn.groups, drawn.codes, profiles), seed)
    assert (found.attributes[0].fits, found.attributes[0].p) == (False, 0.0)
    assert json.loads(json.dumps(found.to_document(), allow_nan=False))["attributes"][0]["statistic"] is None


def test_cases_and_constraints_are_named(seed: int) -> None:
    attributes = {
        "age": {"template": "age"},
        "wage": {
            "given": ["age"],
            "table": [
                {"when": {"age": {"below": 18}}, "values": [0]},
                {"uniform": {"low": 1, "high": 2}},
            ],
        },
        "degree": {"values": ["none", "some"]},
    }
    never = {"never": {"age": {"below": 40}, "degree": "some"}}
    found = fit(make_spec(attributes=attributes, constraints=[never]), seed)
    assert [(each.name, each.case, each.test) for each in found.attributes[1:3]] == [
        ("wage", "age below 18", "one value"),
        ("wage", "all others", "ks"),
    ]
    assert (found.attributes[3].fits, found.attributes[3].is_changed) == (False, True)


def test_counts_are_weighed_as_scipy_does() -> None:
    observed, wanted = np.array([30.0, 50.0, 20.0]), np.array([25.0, 50.0, 25.0])
    assert weigh_counts(observed, wanted) == pytest.approx(tuple(stats.chisquare(observed, wanted)))
    assert weigh_counts(np.array([7.0]), np.array([7.0])) == (0.0, 1.0)
    rare = np.array([2.0, 1.0, 3.0, 94.0]), np.array([1.0, 2.0, 3.0, 94.0])
    assert weigh_counts(*rare) == (0.0, 1.0)  # the rare ones together are as many as wanted


def test_measures_of_pairs(seed: int) -> None:
    random = np.random.default_rng(seed)
    one = random.integers(0, 4, 500)
    other = (one + random.integers(0, 2, 500)) % 4
    even = np.ones(500)
    assert correlate(one, other, even) == pytest.approx(np.corrcoef(one, other)[0, 1])
    wanted = stats.contingency.association(stats.contingency.crosstab(one, other).count, method="cramer")
    assert associate(one, other, even) == pytest.approx(wanted)
    assert correlate(one, one * 0, even) == associate(one, one * 0, even) == 0.0


def test_pairs_of_a_table_hang_together_as_in_its_file(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "sample.csv"
    path.write_text("sex,school,wage\n" + "f,low,1\n" * 3 + "f,high,9\nm,low,2\n" + "m,high,7\n" * 4, encoding="utf-8")
    table = {"file": str(path), "columns": {"sex": "sex", "school": "school", "wage": "wage"}}
    found = fit(make_spec(tables=[table], sampling="quota"), seed)
    assert [(pair.one, pair.other, pair.measure) for pair in found.pairs] == [
        ("sex", "school", "v"),
        ("sex", "wage", "v"),
        ("school", "wage", "v"),
    ]
    assert all(pair.observed == pytest.approx(pair.wanted, abs=1e-3) for pair in found.pairs)


def test_the_page_needs_nothing_else_and_escapes_what_it_shows(seed: int) -> None:
    page = write_page(fit(make_spec(attributes=ATTRIBUTES), seed), "Größe & <Maß>")
    assert "東京" in page
    assert "&lt;b&gt;Łódź&lt;/b&gt;" in page
    assert "<b>Łódź" not in page
    assert "Größe &amp; &lt;Maß&gt;" in page
    assert "src=" not in page
    assert "http" not in page


def test_a_population_without_attributes_has_nothing_to_compare(seed: int) -> None:
    found = fit(make_spec(), seed)
    assert (found.attributes, found.pairs, found.agents) == ([], [], 5_000)


@pytest.mark.parametrize("name", ["agents.csv", "agents.parquet"])
def test_tables_are_written_whole(name: str, tmp_path: Path, seed: int) -> None:
    table = build_population(make_spec(9, attributes=ATTRIBUTES), seed).tabulate()
    path = tmp_path / name
    write_table(table, path)
    read = pa.csv.read_csv(path) if name.endswith("csv") else pa.parquet.read_table(path)
    assert [each.name for each in tmp_path.iterdir()] == [name]
    assert read.column("city").to_pylist() == table.column("city").to_pylist()
    assert read.column("height").to_pylist() == table.column("height").to_pylist()
