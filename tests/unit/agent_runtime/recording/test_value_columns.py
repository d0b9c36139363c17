"""A value fills the column of its kind, and no other."""

from __future__ import annotations

from typing import Any

import pytest

from agent_runtime.recording.value_columns import spread_value

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
