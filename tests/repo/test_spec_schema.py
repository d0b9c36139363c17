"""The published schema of specs is that of the code, describes each field, and takes what the examples say."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from ecumene.sim import parse_spec, plan_sweep
from ecumene.sim.specs.schema import dump_schema
from ecumene.sim.specs.yaml_reading import read_yaml

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = ROOT / "docs" / "spec.schema.json"
SPECS = sorted(
    path for path in (ROOT / "examples").rglob("*.yaml") if path.read_text(encoding="utf-8").find("\nname:") >= 0
)


def test_the_schema_is_current() -> None:
    assert SCHEMA.read_text(encoding="utf-8") == dump_schema(), "run: ecumene schema --out docs/spec.schema.json"


def test_each_field_says_what_it_is() -> None:
    schema: Any = json.loads(SCHEMA.read_text(encoding="utf-8"))
    sections = {"RunSpec": schema, **schema["$defs"]}
    silent = [
        f"{section}.{name}"
        for section, described in sections.items()
        for name, field in described.get("properties", {}).items()
        if not field.get("description")
    ]
    assert silent == []


@pytest.mark.parametrize("path", SPECS, ids=[path.stem for path in SPECS])
def test_the_examples_are_valid(path: Path) -> None:
    validator = jsonschema_rs.validator_for(json.loads(SCHEMA.read_text(encoding="utf-8")))
    document, _ = read_yaml(path.read_text(encoding="utf-8"))
    assert [f"{list(error.instance_path)}: {error.message}" for error in validator.iter_errors(document)] == []


def test_the_specs_of_the_page_are_valid() -> None:
    whole, *sections = re.findall(
        r"```yaml\n(.*?)```", (ROOT / "docs" / "specs.md").read_text(encoding="utf-8"), re.DOTALL
    )
    assert len(sections) >= 2
    for section in ("", *sections):
        document, lines = read_yaml(whole + section)
        spec = parse_spec(document, lines=lines)
        plan_sweep(spec)


def test_a_misspelt_field_is_refused() -> None:
    validator = jsonschema_rs.validator_for(json.loads(SCHEMA.read_text(encoding="utf-8")))
    assert not validator.is_valid({"name": "x", "population": {"groups": []}, "sed": 1})
