"""Rows of turns fit the tables that state them."""

from __future__ import annotations

from typing import Any

import pytest
from ecumene.client.records import ACTIONS

from agent_runtime.turns.ledger import ACTION_NAMES, TURN_NAMES, spread_value

VALUE_NAMES = ("value_kind", "value_double", "value_int", "value_text", "value_json")


@pytest.mark.parametrize(
    ("value", "kind", "filled"),
    [
        (1.5, "double", "value_double"),
        (True, "bool", "value_int"),
        (7, "int", "value_int"),
        ("x", "string", "value_text"),
        (b"\x00", "bytes", "value_text"),
        ({"a": 1}, "json", "value_json"),
        (None, "null", None),
    ],
)
def test_a_value_fills_the_column_of_its_kind(value: Any, kind: str, filled: str | None) -> None:
    spread = dict(zip(VALUE_NAMES, spread_value(value), strict=True))
    assert spread.pop("value_kind") == kind
    assert [name for name, content in spread.items() if content is not None] == ([filled] if filled else [])


def test_values_stand_in_the_order_of_the_table() -> None:
    names = [column.name for column in ACTIONS.columns if column.name.startswith("value_")]
    assert tuple(names) == VALUE_NAMES
    first = ACTION_NAMES.index("value_kind")
    assert ACTION_NAMES[first : first + 6] == (*VALUE_NAMES, "commit_revision")


def test_turn_rows_stand_in_the_order_of_the_table() -> None:
    assert TURN_NAMES == (
        "agent", "group", "turn", "round", "observation_revision", "sim_time_ns", "wall_time_ns", "status", "reason",
        "attempts", "prompt_tokens", "completion_tokens", "latency_ms", "model", "mode", "flags", "observed_at_ns",
        "method",
    )  # fmt: skip
