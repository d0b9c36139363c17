"""The one writer of a process's standard output: JSON lines, for whoever started it."""

from __future__ import annotations

import json
import os
import sys
from typing import Any, TextIO

LINE_BYTES_MAX = 4 * 1024 * 1024
"""Whoever reads the lines drops longer ones."""


class JsonLines:
    """Writes one JSON object a line. A reader that is gone is no failure: the process ends for other reasons."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stdout if stream is None else stream

    def write(self, document: dict[str, Any]) -> None:
        """Write a line, at once. Raises ValueError, TypeError, RecursionError for what is no JSON, or too long."""
        # In ASCII: half a surrogate that some agent has said can be told as well.
        line = json.dumps(document)
        if len(line) >= LINE_BYTES_MAX:
            raise ValueError(f"{len(line):,} bytes are too many for one line")
        try:
            self._stream.write(line + "\n")
            self._stream.flush()
        except (BrokenPipeError, ValueError):
            pass


def take_stdout() -> TextIO:
    """Standard output for the caller alone: what else is printed here, or by processes begun here, goes to stderr.

    Agents' code prints what it likes; between the lines of the protocol it would break or forge them.
    """
    sys.stdout.flush()
    own = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return os.fdopen(own, "w", encoding="utf-8")
