"""Rows of turns fit the tables that state them."""

from __future__ import annotations

from ecumene.client.records import ACTIONS

from agent_runtime.turns.turn_records import ACTION_NAMES, TURN_NAMES

VALUE_NAMES = ("value_kind", "value_double", "value_int", "value_text", "value_json")


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
