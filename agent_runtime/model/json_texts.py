"""JSON that comes from outside, read so that whatever it says can be written again."""

from __future__ import annotations

import json
from typing import Any


def read_json(data: bytes) -> Any:
    """The value of a JSON text in UTF-8.

    Raises ValueError: it is none, is nested too deeply, or holds what JSON has no words for: NaN, infinities, half
    surrogates.
    """
    try:
        value = json.loads(data.decode())
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    return value
