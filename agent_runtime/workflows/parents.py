"""Ending with whoever started this process."""

from __future__ import annotations

import asyncio
import os
import sys
import threading


def watch_parent(loop: asyncio.AbstractEventLoop, stop: asyncio.Event, exit_after_s: float) -> None:
    """Stop when stdin ends, and end the process itself if the loop does not come to it in time.

    A thread: it notices the death of the parent even while actors' code blocks the loop.
    """

    def read() -> None:
        while os.read(sys.stdin.fileno(), 4096):
            pass
        try:
            loop.call_soon_threadsafe(stop.set)
        except RuntimeError:
            return
        threading.Event().wait(exit_after_s)
        os._exit(1)

    threading.Thread(target=read, name="host stdin", daemon=True).start()
