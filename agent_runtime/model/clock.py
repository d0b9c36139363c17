"""Time as a worker knows it: one monotonic clock, and wall time derived from it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Clock:
    """Seconds that never go back, and what they were on the wall when the worker began.

    Wall times in records are therefore as monotone as the clock, whatever is done to the machine's.
    """

    now_s: Callable[[], float]
    wall_offset_ns: int = 0

    @classmethod
    def system(cls) -> Clock:
        """The clock of this machine."""
        return cls(time.monotonic, time.time_ns() - time.monotonic_ns())

    def wall_ns(self, at_s: float) -> int:
        """Wall time, ns since 1970 UTC, of an instant of this clock."""
        return int(at_s * 1e9) + self.wall_offset_ns

    def wall_ns_of(self, instants_s: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
        """The same of many instants."""
        return (instants_s * 1e9).astype(np.int64) + self.wall_offset_ns
