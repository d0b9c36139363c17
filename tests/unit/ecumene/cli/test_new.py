"""A new experiment can be checked as it stands, and overwrites nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from ecumene.cli import app
from ecumene.sim import load_spec
from ecumene.sim.specs.schema import dump_schema


def test_a_new_experiment_is_a_spec_with_its_schema_beside_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert app.main(["new", "experiment", "mine-1", "--dir", str(tmp_path / "a")]) in (0, None)
    path = tmp_path / "a" / "mine-1.yaml"
    assert str(path) in capsys.readouterr().out
    assert path.read_text(encoding="utf-8").startswith("# yaml-language-server: $schema=spec.schema.json\n")
    assert load_spec(path).name == "mine-1"
    assert (tmp_path / "a" / "spec.schema.json").read_text(encoding="utf-8") == dump_schema()
    assert app.main(["check", str(path), "--fields-only"]) == 0


def test_what_is_there_is_kept_and_a_wrong_name_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.yaml").write_text("mine", encoding="utf-8")
    assert app.main(["new", "experiment", "x", "--dir", str(tmp_path)]) == 1
    assert (tmp_path / "x.yaml").read_text(encoding="utf-8") == "mine"
    assert app.main(["new", "experiment", "X y", "--dir", str(tmp_path)]) == 2
    assert "no name for an experiment" in capsys.readouterr().err
