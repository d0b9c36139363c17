"""Batches of all shapes become one table, in order and in the table's types."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from ecumene.client.records import ACTIONS, CALLS, TURNS

from agent_runtime.recording import BatchShapeError
from agent_runtime.recording.batches import SMALL_BATCH_ROWS, build_rows, make_batch

SCALARS: dict[str, Any] = {
    "turn": 1,
    "observation_revision": 3,
    "wall_time_ns": 4,
    "status": "ok",
    "attempts": 1,
    "prompt_tokens": 0,
    "completion_tokens": 0,
    "latency_ms": 1.5,
}


def test_scalars_lists_and_arrays_mix_in_the_order_given(seed: int) -> None:
    chance = random.Random(seed)
    expected: list[tuple[str, float, str]] = []
    batches = []
    for number in range(40):
        rows = chance.choice([1, 2, SMALL_BATCH_ROWS - 1, SMALL_BATCH_ROWS, 3 * SMALL_BATCH_ROWS])
        agents = [f"agent-{number}-{row}" for row in range(rows)]
        latencies = [chance.random() for _ in agents]
        status: Any = chance.choice(["ok", "timeout", [chance.choice(["ok", "error"]) for _ in agents]])
        shape = chance.choice([list, tuple, np.array, pa.array])
        columns = {**SCALARS, "agent": agents, "latency_ms": shape(latencies), "status": status}
        batches.append(make_batch(TURNS, columns, None, "run-1"))
        statuses = status if isinstance(status, list) else [status] * rows
        expected += zip(agents, latencies, statuses, strict=True)
    rows = build_rows(TURNS, batches)
    assert rows.schema.equals(TURNS.schema, check_metadata=True)
    found = zip(*(rows.column(name).to_pylist() for name in ("agent", "latency_ms", "status")), strict=True)
    assert list(found) == expected
    assert set(rows.column("run").to_pylist()) == {"run-1"}
    assert rows.column("model").null_count == len(rows)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"colour": "blue"}, "unknown columns colour"),
        ({"status": None, "turn": [1]}, "turn has 1 rows, others have 2"),
    ],
)
def test_a_malformed_batch_is_refused(change: dict[str, Any], problem: str) -> None:
    with pytest.raises(BatchShapeError, match=problem):
        make_batch(TURNS, {"agent": ["a", "b"], **SCALARS, **change}, None, "r")


def test_a_missing_column_is_refused() -> None:
    columns = {"agent": ["a"], **SCALARS}
    del columns["status"]
    with pytest.raises(BatchShapeError, match="status is missing"):
        make_batch(TURNS, columns, None, "r")


def test_scalars_alone_need_a_number_of_rows() -> None:
    columns = {"agent": "a", **SCALARS}
    with pytest.raises(BatchShapeError, match="say how many rows"):
        make_batch(TURNS, columns, None, "r")
    assert build_rows(TURNS, [make_batch(TURNS, columns, 3, "r")]).num_rows == 3


def test_what_is_too_large_for_its_column_or_no_text_is_cut_to_what_fits() -> None:
    wrong = {"turn": [2**80, -(2**80)], "prompt_tokens": 2**31, "attempts": [2**15, 1], "reason": "a\ud800", "run": "r"}
    flags = ["\udfffb", None]
    batch = make_batch(TURNS, {"agent": ["a", "b"], **SCALARS, **wrong, "flags": flags}, None, "r")
    (first, second) = build_rows(TURNS, [batch]).to_pylist()
    assert (first["turn"], second["turn"]) == (2**63 - 1, 1 - 2**63)
    assert (first["prompt_tokens"], first["attempts"], second["attempts"]) == (2**31 - 1, 2**15 - 1, 1)
    assert (first["reason"], first["flags"], second["flags"]) == ("a?", "?b", None)


@pytest.mark.parametrize("wrong", ["soon", [1.5, "x"]])
def test_a_value_of_the_wrong_type_names_its_column(wrong: Any) -> None:
    batch = make_batch(TURNS, {"agent": ["a", "b"], **SCALARS, "turn": wrong}, None, "r")
    with pytest.raises((pa.ArrowException, OverflowError, TypeError)) as caught:
        build_rows(TURNS, [batch])
    assert caught.value.__notes__ == ["column turn of turns"]


def test_only_bulky_columns_count_their_characters() -> None:
    action = {"agent": ["a", "b"], "turn": 1, "seq": 0, "action": "say", "path": "/room", "key": "k" * 100}
    assert make_batch(ACTIONS, {**action, "value_text": ["hello", None]}, None, "r").chars == 5
    call = {**{name: SCALARS[name] for name in SCALARS if name in CALLS.column_names}, "call": 0, "model": "m"}
    batch = make_batch(CALLS, {**call, "agent": ["a"], "request_json": "[1]", "response_text": ["four"]}, None, "r")
    assert batch.chars == 3 + 4
