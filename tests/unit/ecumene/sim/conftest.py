"""A recorded guess game, written by hand so that every figure is known."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from ecumene.client.records import (
    ACTIONS,
    TURNS,
    RunManifest,
    RunState,
    Table,
    close_part,
    list_parts,
    name_part,
    write_manifest,
)
from ecumene.sim.specs.spec import parse_spec

# One turn: (agent, round, status, number or None, committed), and a reason if it has one.
Turn = tuple[str, int, str, float | None, bool] | tuple[str, int, str, float | None, bool, str]
RecordRun = Callable[..., Path]


@pytest.fixture
def record_run(tmp_path: Path) -> RecordRun:
    """Records a run of given turns; returns its directory. A second call adds parts."""

    def record(
        turns: Sequence[Turn],
        *,
        agent: str = "random",
        agents: int = 4,
        name: str = "run",
        state: RunState = RunState.DONE,
        note: str = "",
        **game: Any,
    ) -> Path:
        directory = tmp_path / name
        document = {
            "name": "hand-made",
            "seed": 11,
            "population": {"groups": [{"name": "all", "agent": agent, "count": agents}]},
            "game": {"rounds": 2, **game},
        }
        manifest = RunManifest(
            run="hand-made-1",
            state=state,
            note=note,
            seed=11,
            spec=parse_spec(document).to_document(),
            versions={},
            world="w",
            history="h",
            started_at="2025-01-01T00:00:00.000Z",
        )
        directory.mkdir(exist_ok=True, parents=True)
        write_manifest(directory, manifest)
        run = "r" if name == "run" else name.rpartition("/")[2]
        turn_rows = [make_turn(*turn) | {"run": run} for turn in turns]
        action_rows = [make_action(*turn[:5]) | {"run": run} for turn in turns if turn[3] is not None]
        write_rows(directory, TURNS, turn_rows)
        write_rows(directory, ACTIONS, action_rows)
        return directory

    return record


@pytest.fixture
def record_sweep(record_run: RecordRun, tmp_path: Path) -> Callable[..., Path]:
    """Records a sweep over ratios of one round: ratio -> for each replicate the numbers named, or why it failed."""

    def record(conditions: Mapping[str, Sequence[Sequence[float] | str]], *, state: str = "done") -> Path:
        runs = []
        for ratio, replicates in conditions.items():
            for replicate, numbers in enumerate(replicates, start=1):
                run = f"run-{len(runs) + 1}"
                failed = numbers if isinstance(numbers, str) else ""
                turns = (
                    [(f"a{place}", 1, "ok", number, True) for place, number in enumerate(numbers)] if not failed else []
                )
                outcome = {"state": RunState.FAILED if failed else RunState.DONE, "note": failed}
                record_run(turns, name=f"sweep/{run}", ratio=ratio, rounds=1, agents=max(len(turns), 1), **outcome)
                values = {"game.ratio": ratio}
                told = {"run": run, "directory": run, "seed": len(runs), "replicate": replicate, "values": values}
                runs.append({**told, "state": outcome["state"]})
        directory = tmp_path / "sweep"
        document = {"sweep": "s-1", "name": "ratios", "state": state, "started_at": "2026-01-01T00:00:00Z"}
        document |= {"ended_at": "2026-01-01T01:00:00Z" if state == "done" else None, "spec": {}, "runs": runs}
        (directory / "sweep.json").write_text(json.dumps(document), encoding="utf-8")
        return directory

    return record


def make_turn(
    agent: str, round_number: int, status: str, number: float | None, committed: bool, reason: str | None = None
) -> dict[str, Any]:
    """A row of TURNS."""
    zeros = dict.fromkeys(("observation_revision", "wall_time_ns", "attempts"), 0)
    tokens = {"prompt_tokens": 10, "completion_tokens": 1, "latency_ms": 2.0 * round_number}
    flags = "wrong_product" if status == "fallback" else None
    row = {"run": "r", "agent": agent, "turn": round_number, "round": round_number, "status": status, "flags": flags}
    return {**row, **zeros, **tokens, "reason": reason}


def make_action(agent: str, round_number: int, status: str, number: float | None, committed: bool) -> dict[str, Any]:
    """A row of ACTIONS."""
    named = {"run": "r", "agent": agent, "turn": round_number, "round": round_number, "seq": 0, "action": "report"}
    value = {"value_kind": "double", "value_double": number, "commit_revision": 5 if committed else None}
    return {**named, **value, "path": "/game", "key": agent}


def write_rows(directory: Path, table: Table, rows: list[dict[str, Any]]) -> None:
    """Close one part."""
    staging, folder = directory / "staging", directory / table.name
    for made in (staging, folder):
        made.mkdir(parents=True, exist_ok=True)
    number = max(list_parts(directory, table).values(), default=0) + 1
    close_part(pa.Table.from_pylist(rows, schema=table.schema), folder / name_part("w", number), staging)
