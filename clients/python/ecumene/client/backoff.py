"""Waits between attempts: exponential, with full jitter, so that a crowd does not come back at once."""

from __future__ import annotations

import random


class Backoff:
    """Random waits whose upper bound doubles from `first_ms` to `ms_max`."""

    def __init__(self, first_ms: int, ms_max: int, chance: random.Random) -> None:
        self._first_ms = first_ms
        self._ms_max = ms_max
        self._chance = chance
        self._attempts = 0

    def next_delay_s(self, advised_s: float = 0.0) -> float:
        """Seconds to wait now; never less than what the server advised."""
        self._attempts += 1
        return self.delay_s(self._attempts - 1, advised_s)

    def delay_s(self, attempts: int, advised_s: float = 0.0) -> float:
        """Seconds to wait after so many attempts before."""
        bound_ms = min(self._ms_max, self._first_ms * 2 ** min(attempts, 30))
        return advised_s + self._chance.uniform(0, bound_ms) / 1000

    def reset(self) -> None:
        """Start over after a success."""
        self._attempts = 0
