"""Notices a connection that went silent without ending: cut without a word, or a server that stands still."""

from __future__ import annotations

import asyncio


class Heartbeat:
    """Resolves `silence` when nothing was received for `limit_s`; `beat()` on every message costs one clock read."""

    def __init__(self, limit_s: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._limit_s = limit_s
        self._last = self._loop.time()
        self.silence: asyncio.Future[None] = self._loop.create_future()
        self._timer = self._loop.call_later(limit_s, self._look, self._last + limit_s)

    def beat(self) -> None:
        """Something was received."""
        self._last = self._loop.time()

    def stop(self) -> None:
        """Look no more."""
        self._timer.cancel()
        self.silence.cancel()

    def _look(self, due: float) -> None:
        now = self._loop.time()
        if now - due > self._limit_s / 2:
            # This very loop stood still; what has arrived meanwhile gets a chance to be read first.
            self._last = max(self._last, now - self._limit_s / 2)
        due = self._last + self._limit_s
        if due > now:
            self._timer = self._loop.call_at(due, self._look, due)
        elif not self.silence.done():
            self.silence.set_result(None)
