"""The one writer of a process's standard output: JSON lines, for whoever started it."""

from __future__ import annotations

import json
import sys
from typing import Any, TextIO


class JsonLines:
    """Writes one JSON object a line. A reader that is gone is no failure: the process ends for other reasons."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stdout if stream is None else stream

    def write(self, document: dict[str, Any]) -> None:
        """Write a line, at once."""
        try:
            self._stream.write(json.dumps(document, ensure_ascii=False) + "\n")
            self._stream.flush()
        except (BrokenPipeError, ValueError):
            pass
