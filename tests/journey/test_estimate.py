"""What was estimated is what a run takes: its calls exactly, its tokens within twice and half."""

from __future__ import annotations

from pathlib import Path

import pyarrow.dataset as ds
import pytest
from ecumene.client.records import CALLS, SURVEYS, list_parts
from ecumene.sim import load_spec, parse_spec, run
from ecumene.sim.estimates.estimate import estimate_spec

from tests.journey.test_run import Silent

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "guess_with_surveys.yaml"


async def test_what_surveys_take_is_estimated_too(tmp_path: Path) -> None:
    spec = load_spec(EXAMPLE)
    spec = spec.model_copy(update={"recording": spec.recording.model_copy(update={"directory": tmp_path})})
    found = estimate_spec(spec)
    outcome = await run(spec, observer=Silent())
    calls = ds.dataset([str(part) for part in list_parts(outcome.directory, CALLS)]).to_table()
    answers = ds.dataset([str(part) for part in list_parts(outcome.directory, SURVEYS)]).to_table()
    asked = answers.filter(ds.field("prompt_tokens") > 0)
    assert asked.num_rows == pytest.approx(found.asked, abs=5)  # who of a sample has a model is drawn
    assert calls.num_rows + asked.num_rows == pytest.approx(found.total.calls, abs=7)  # and a pause mutes some
    for column, estimated in (
        ("prompt_tokens", found.total.prompt_tokens),
        ("completion_tokens", found.total.completion_tokens),
    ):
        counted = sum(calls.column(column).to_pylist()) + sum(asked.column(column).to_pylist())
        assert estimated.low <= counted <= estimated.high
        assert estimated.likely / 2 <= counted <= estimated.likely * 2


async def test_an_estimate_is_kept_by_the_run(tmp_path: Path) -> None:
    groups = [
        {"name": "quick", "agent": "prompted", "count": 12, "parameters": {"prompt": "guess-p1"}},
        {"name": "slow", "agent": "prompted", "count": 8, "persona": "Ein Mathematiker, der gern läuft."},
        {"name": "rule", "agent": "level-k", "count": 5, "parameters": {"level": 1}},
    ]
    recording = {"directory": str(tmp_path)}
    spec = parse_spec({"name": "x", "population": {"groups": groups}, "game": {"rounds": 3}, "recording": recording})
    found = estimate_spec(spec)
    outcome = await run(spec, observer=Silent())
    calls = ds.dataset([str(part) for part in list_parts(outcome.directory, CALLS)]).to_table()
    assert calls.num_rows == found.total.calls == 60
    assert outcome.manifest.counts["turns"] == found.turns == 75
    for column, estimated in (
        ("prompt_tokens", found.total.prompt_tokens),
        ("completion_tokens", found.total.completion_tokens),
    ):
        counted = sum(calls.column(column).to_pylist())
        assert estimated.likely / 2 <= counted <= estimated.likely * 2
        assert estimated.low <= counted <= estimated.high
