"""Residents of the United States by age and sex, as the census of each year counted them: drawn, they are so.

The data are `population.json` of npm's `vega-datasets` (IPUMS USA), which are fetched with `npm pack`. Of 100 seeds
`quota` may fail none; `random` fails one in a hundred where nothing is wrong.
"""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
import tarfile
from collections import Counter
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.csv
import pytest
from ecumene.sim.populations.fit import compare
from ecumene.sim.populations.population import build_population
from ecumene.sim.specs.population import PopulationSpec
from scipy import stats

PACKAGE, MEMBER = "vega-datasets@2.11.0", "package/data/population.json"
SEXES = {1: "male", 2: "female"}
P_MIN = 0.01

Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def census(tmp_path_factory: pytest.TempPathFactory, missing_toolchain: Callable[[str], NoReturn]) -> dict[int, Rows]:
    """Year -> age, sex and people of each row."""
    if shutil.which("npm") is None:
        missing_toolchain("npm is not installed")
    folder = tmp_path_factory.mktemp("vega")
    fetched = subprocess.run(["npm", "pack", PACKAGE], cwd=folder, capture_output=True, text=True, timeout=110)
    if fetched.returncode:
        missing_toolchain(f"npm cannot fetch {PACKAGE}: {fetched.stderr.strip()[-300:]}")
    (archive,) = folder.glob("*.tgz")
    with tarfile.open(archive) as packed:
        data = packed.extractfile(MEMBER)
        assert data is not None
        rows: Rows = json.load(data)
    return {year: [row for row in rows if row["year"] == year] for year in sorted({row["year"] for row in rows})}


def make_spec(rows: Rows, folder: Path, size: int, sampling: str) -> PopulationSpec:
    """People of one year, by age and sex together."""
    path = folder / "census.csv"
    columns = {name: [row[name] for row in rows] for name in ("age", "people")}
    pa.csv.write_csv(pa.table(columns | {"sex": [SEXES[row["sex"]] for row in rows]}), path)
    table = {"file": str(path), "columns": {"age": "age", "sex": "gender"}, "weight": "people"}
    groups = [{"name": "all", "agent": "random", "share": 1}]
    return PopulationSpec.model_validate({"size": size, "sampling": sampling, "groups": groups, "tables": [table]})


def weigh(spec: PopulationSpec, seed: int, rows: Rows) -> float:
    """The p-value of chi-squared over age and sex together."""
    profiles = build_population(spec, seed).profiles
    assert profiles is not None
    size = len(profiles)
    found = Counter(zip(profiles["age"].to_pylist(), profiles["gender"].to_pylist(), strict=True))
    total = sum(row["people"] for row in rows)
    told = [(found[row["age"], SEXES[row["sex"]]], row["people"] / total * size) for row in rows if row["people"]]
    assert sum(count for count, _ in told) == size, "nobody is of an age and sex that nobody was"
    common = [pair for pair in told if pair[1] >= 5]
    rare = [pair for pair in told if pair[1] < 5]
    if rare:  # together, so that enough are expected
        common.append((sum(count for count, _ in rare), sum(wanted for _, wanted in rare)))
    return float(stats.chisquare(*zip(*common, strict=True)).pvalue)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("size", [1_000, 10_000, 100_000])
def test_age_and_sex_are_those_of_the_census(size: int, census: dict[int, Rows], tmp_path: Path) -> None:
    years = sorted(census)
    seeds = [(seed, years[seed % len(years)]) for seed in range(100)]
    quota, random = (
        [weigh(make_spec(census[year], tmp_path, size, sampling), seed, census[year]) for seed, year in seeds]
        for sampling in ("quota", "random")
    )
    assert sum(p > P_MIN for p in quota) >= 99
    few = sum(p <= P_MIN for p in random)
    assert stats.binom.sf(few - 1, len(seeds), P_MIN) > 1e-4, few
    assert stats.kstest(random, "uniform").pvalue > 1e-5


@pytest.mark.long
def test_the_templates_of_age_and_gender_are_the_census_of_2000(census: dict[int, Rows]) -> None:
    rows = census[2000]
    for name, key, wanted in (
        ("age", "low", Counter({str(row["age"]): 0 for row in rows})),
        ("gender", "value", Counter(dict.fromkeys(SEXES.values(), 0))),
    ):
        for row in rows:
            wanted[str(row["age"]) if name == "age" else SEXES[row["sex"]]] += row["people"]
        text = files("ecumene.sim.populations").joinpath(f"templates/{name}.csv").read_text(encoding="utf-8")
        assert {row[key]: int(row["people"]) for row in csv.DictReader(text.splitlines())} == wanted
    spec = PopulationSpec.model_validate(
        {
            "size": 10_000,
            "groups": [{"name": "all", "agent": "random", "share": 1}],
            "attributes": {"age": {"template": "age"}, "gender": {"template": "gender"}},
        }
    )
    assert all(each.fits for each in compare(spec, build_population(spec, 1), 1).attributes)
