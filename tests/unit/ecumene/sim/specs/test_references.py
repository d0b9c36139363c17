"""Figures of one's own are read from YAML as from a manifest, whose keys are texts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ecumene.sim.reporting import list_references
from ecumene.sim.specs.errors import SpecError
from ecumene.sim.specs.spec import load_spec, parse_spec

SPEC = """
name: a
population: {groups: [{name: all, agent: random, count: 2}]}
references:
  - {name: "Zürich 東京", source: "me, 2024", means: {1: 36.1, 2: 73/3}}
"""


def test_a_manifest_gives_back_what_yaml_said_and_reports_show_it(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(SPEC, encoding="utf-8")
    spec = load_spec(tmp_path / "a.yaml")
    again = parse_spec(json.loads(json.dumps(spec.to_document())))
    assert again.references == spec.references
    *_, own = list_references(ratio=2 / 3, offset=0.0, rounds=5, given=again.references)
    assert (own.name, own.kind, own.source) == ("Zürich 東京", "given", "me, 2024")
    assert own.means == {1: 36.1, 2: 73 / 3}


@pytest.mark.parametrize("means", ["{}", "{0: 1}", "{1: many}", "{one: 1}", "7"])
def test_means_that_are_none_are_refused_by_place(tmp_path: Path, means: str) -> None:
    (tmp_path / "a.yaml").write_text(SPEC.replace("{1: 36.1, 2: 73/3}", means), encoding="utf-8")
    with pytest.raises(SpecError, match=r"references\[0\]\.means"):
        load_spec(tmp_path / "a.yaml")
