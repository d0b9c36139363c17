"""The fit is that of the recorded population; a probe is told beside runs of the same roles alone."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from ecumene.client.records import RunManifest, RunState, read_manifest, write_manifest
from ecumene.sim.asking.probe import CategoryProbe, ProbeReport
from ecumene.sim.populations.population import build_population
from ecumene.sim.reporting.population_sections import find_probe, make_population_sections
from ecumene.sim.runs.profiles import PROFILES_NAME, keep_networks, keep_profiles
from ecumene.sim.specs.spec import parse_spec

POPULATION = {
    "groups": [{"name": "all", "agent": "random", "count": 200}],
    "attributes": {"colour": {"categories": {"red": "1/4", "blue": "3/4"}}},
    "networks": {"friends": {"small_world": {"neighbours": 4, "rewired": 0.1}}},
}
KIDS = CategoryProbe(
    category="kids",
    persona="You are 7.",
    asked=2,
    answered=1,
    statuses={"ok": 1, "timeout": 1},
    echoed=0.25,
    ages=[7, 7],
    wrong_age=1,
    nearest="old",
    similarity=0.9,
    numbers=[22.2, 33],
    remarks=["reasons on"],
)
AGELESS = dataclasses.replace(KIDS, category="any", persona="", ages=[], wrong_age=0, nearest=None, remarks=[])
PROBE = json.loads(json.dumps(ProbeReport(Path("probe"), [KIDS, AGELESS], "").to_document()))


def make_run(directory: Path, **population: Any) -> RunManifest:
    """The directory of a run with its manifest."""
    spec = parse_spec({"name": "a", "seed": 3, "population": POPULATION | population})
    directory.mkdir()
    told = {"spec": spec.to_document(), "versions": {}, "world": "w", "history": "h", "started_at": "2026-01-01"}
    manifest = RunManifest(run=directory.name, state=RunState.DONE, seed=3, **told)
    write_manifest(directory, manifest)
    drawn = build_population(spec.population, 3)
    keep_profiles(drawn, directory)
    keep_networks(spec.population, drawn, 3, directory)
    return read_manifest(directory)


def test_the_fit_is_that_of_what_is_recorded(tmp_path: Path) -> None:
    manifest = make_run(tmp_path / "run")
    (section,) = make_population_sections(tmp_path / "run", manifest)
    fit, networks = section.tables
    assert fit.rows[0][0] == "colour"
    assert fit.rows[0][-1] == "fits"
    assert networks.rows == [["friends", "400"]]
    assert {label: have for label, have, _ in section.bars[0].bars} == {"red": 50.0, "blue": 150.0}
    path = tmp_path / "run" / PROFILES_NAME
    table = pq.read_table(path)
    reds = table.filter([str(colour) == "red" for colour in table["colour"].to_pylist()])
    others = table.slice(0, len(table) - len(reds))
    pq.write_table(pa.concat_tables([reds, others]), path)
    (section,) = make_population_sections(tmp_path / "run", manifest)
    assert section.tables[0].rows[0][-1] == "does not fit"
    assert "1 of 1 comparisons do not fit" in section.texts[0]


def test_what_cannot_be_compared_is_said(tmp_path: Path) -> None:
    manifest = make_run(tmp_path / "run", networks={})
    (tmp_path / "run" / PROFILES_NAME).unlink()
    (section,) = make_population_sections(tmp_path / "run", manifest)
    assert "cannot be told" in section.texts[0]
    assert section.tables == []


def test_people_without_attributes_have_no_section(tmp_path: Path) -> None:
    manifest = make_run(tmp_path / "run", attributes={}, networks={})
    assert make_population_sections(tmp_path / "run", manifest) == []


@pytest.mark.parametrize("other", ["same", "other roles", "damaged"])
def test_a_probe_is_found_beside_a_run_of_the_same_roles(tmp_path: Path, other: str) -> None:
    manifest = make_run(tmp_path / "run", attributes={}, networks={})
    groups = [{"name": "all", "agent": "random" if other == "same" else "equilibrium", "count": 5}]
    make_run(tmp_path / "probe", attributes={}, networks={}, groups=groups)
    text = "{" if other == "damaged" else json.dumps(PROBE)
    (tmp_path / "probe" / "probe.json").write_text(text, encoding="utf-8")
    found = find_probe(tmp_path / "run", parse_spec(manifest.spec))
    if other != "same":
        assert found is None
        return
    assert found == PROBE | {"directory": "probe"}
    (section,) = make_population_sections(tmp_path / "run", manifest)
    told = ["kids", "You are 7.", "1 of 2", "25%", "1", "old (0.90)", "22.2, 33", "reasons on"]
    unknown = ["any", "–", "1 of 2", "25%", "–", "–", "22.2, 33", "–"]
    assert section.tables[0].rows == [told, unknown]
    assert "lie in probe" in section.texts[0]
