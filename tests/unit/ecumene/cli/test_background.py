"""`ecumene background`: what it prints and writes, and how it ends; its work is told by tests of `sim.backgrounds`."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from ecumene.cli import app

SPEC = """name: people
population:
  groups: [{name: a, agent: random, count: 3}]
  attributes:
    city: {values: ["東京", "Łódź"]}
  backgrounds: {mode: template, file: people.parquet}
"""


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "spec.yaml"
    path.write_text(SPEC, encoding="utf-8")
    return path


def test_it_tells_how_many_and_shows_some(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.main(["background", str(spec)]) == 0
    told = capsys.readouterr().out
    assert "complete" in told
    assert "agent-000001 (complete): " in told
    assert "similarity on the average" in told
    assert pq.read_table("people.parquet").num_rows == 3


def test_json_and_another_file(spec: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "deep" / "other.parquet"
    assert app.main(["background", str(spec), "--out", str(out), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["people"], document["statuses"]["complete"], document["file"]) == (3, 3, str(out))
    assert out.exists()
    assert not (tmp_path / "people.parquet").exists()


def test_a_few_are_shown_and_no_file_is_written(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.main(["background", str(spec), "--first", "2"]) == 0
    told = capsys.readouterr().out
    assert "agent-000002 (complete): " in told
    assert "agent-000003" not in told
    assert "no file was written" in told
    assert not Path("people.parquet").exists()


@pytest.mark.parametrize(
    ("changed", "arguments", "told"),
    [
        (("", ""), ["--out", "x.csv"], "--out x.csv: must end in .parquet"),
        (("  backgrounds: {mode: template, file: people.parquet}\n", ""), [], "population.backgrounds: is missing"),
        (("mode: template", "mode: poem"), [], "population.backgrounds.mode"),
    ],
)
def test_what_cannot_be_written_is_one_line(
    changed: tuple[str, str], arguments: list[str], told: str, spec: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec.write_text(SPEC.replace(*changed) if changed[0] else SPEC, encoding="utf-8")
    assert app.main(["background", str(spec), *arguments]) == 2
    assert told in capsys.readouterr().err


def test_nothing_written_is_a_failure_in_one_line(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = "model: {provider: openai, endpoint: 'http://127.0.0.1:9/v1', attempts_max: 1, retry_total_s: 0}\n"
    spec.write_text(SPEC.replace("mode: template, ", "") + broken, encoding="utf-8")
    assert app.main(["background", str(spec)]) == 1
    told = capsys.readouterr().err.splitlines()[-1]
    assert told.startswith("ecumene: none of 3 people has a text: ")
    assert "127.0.0.1:9" in told


def test_a_spent_budget_has_its_exit_code_and_what_is_written_is_kept(
    spec: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = SPEC.replace("mode: template, ", "").replace("count: 3", "count: 20")
    spec.write_text(text + "model: {in_flight_max: 1}\nbudget: {tokens_max: 3000}\n", encoding="utf-8")
    assert app.main(["background", str(spec)]) == 3
    told = capsys.readouterr().err
    assert "of 20 texts are written, then the budget was spent" in told
    assert "the same command goes on: ecumene background" in told
    assert not Path("people.parquet").exists()
    spec.write_text(text, encoding="utf-8")
    assert app.main(["background", str(spec), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["kept"] > 0
