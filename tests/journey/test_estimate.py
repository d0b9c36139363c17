"""What was estimated is what a run takes: its calls exactly, its tokens within twice and half."""

from __future__ import annotations

from pathlib import Path

import pyarrow.dataset as ds
from ecumene.client.records import CALLS, list_parts
from ecumene.sim import parse_spec, run
from ecumene.sim.estimates.estimate import estimate_spec

from tests.journey.test_run import Silent


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
