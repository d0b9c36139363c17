"""Simulated thinking time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from agent_runtime.model.draws import Draw

# A stream of its own: an answer must not change when only the latency does.
LATENCY_STREAM = 1


class LatencyDistribution(Protocol):
    """How long a model thinks."""

    def sample_ms(self, draw: Draw) -> float:
        """Returns one latency in milliseconds, not negative."""
        ...


@dataclass(frozen=True, slots=True)
class FixedLatency:
    """Always `ms`."""

    ms: float

    def __post_init__(self) -> None:
        _check_finite(ms=self.ms)

    def sample_ms(self, draw: Draw) -> float:
        return self.ms


@dataclass(frozen=True, slots=True)
class UniformLatency:
    """Equally likely anywhere from `low_ms` to `high_ms`."""

    low_ms: float
    high_ms: float

    def __post_init__(self) -> None:
        _check_finite(low_ms=self.low_ms, high_ms=self.high_ms)
        if self.high_ms < self.low_ms:
            raise ValueError(f"high_ms {self.high_ms:g} is below low_ms {self.low_ms:g}")

    def sample_ms(self, draw: Draw) -> float:
        return draw.uniform(self.low_ms, self.high_ms)


@dataclass(frozen=True, slots=True)
class LognormalLatency:
    """Half of the samples below `median_ms`, with a long tail: 16 % lie above median · e^sigma."""

    median_ms: float
    sigma: float

    def __post_init__(self) -> None:
        _check_finite(median_ms=self.median_ms, sigma=self.sigma)

    def sample_ms(self, draw: Draw) -> float:
        return self.median_ms * math.exp(draw.gauss(0.0, self.sigma))


@dataclass(frozen=True, slots=True)
class ExponentialLatency:
    """Memoryless, with mean `mean_ms`."""

    mean_ms: float

    def __post_init__(self) -> None:
        _check_finite(mean_ms=self.mean_ms)

    def sample_ms(self, draw: Draw) -> float:
        return self.mean_ms * draw.expovariate(1.0)


def _check_finite(**values: float) -> None:
    for name, value in values.items():
        if not (math.isfinite(value) and value >= 0):
            raise ValueError(f"{name} must be a finite number of at least 0, not {value!r}")
