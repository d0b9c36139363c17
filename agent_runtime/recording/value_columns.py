"""How a value stands in the recorded tables, whose columns have one type each."""

from __future__ import annotations

import base64
import json
from typing import Any

from ecumene.client import Value


def spread_value(value: Value) -> tuple[Any, ...]:
    """A value in the five columns that the recorded tables have for values: kind, double, int, text, JSON."""
    if isinstance(value, float):
        return "double", value, None, None, None
    if isinstance(value, bool):
        return "bool", None, int(value), None, None
    if isinstance(value, int):
        return "int", None, value, None, None
    if isinstance(value, str):
        return "string", None, None, value, None
    if isinstance(value, bytes):
        return "bytes", None, None, base64.b64encode(value).decode(), None
    if value is None:
        return "null", None, None, None, None
    return "json", None, None, None, json.dumps(value, ensure_ascii=False)
