"""Confidence intervals of a mean, from Student's t, for few values, too."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

HALVINGS = 60
"""More do not change a double."""


def compute_half_width(values: Sequence[float], confidence: float = 0.95) -> float | None:
    """Half of the interval around the mean of normally distributed values; None = one value says nothing of it."""
    if len(values) < 2:
        return None
    return quantile_of_t(confidence, len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))


def quantile_of_t(confidence: float, degrees: int) -> float:
    """Student's t of so many degrees lies between minus and plus this with the probability `confidence`."""
    low, high = 0.0, math.pi / 2
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, degrees) < confidence else (low, middle)
    return math.sqrt(degrees) * math.tan(low)


def _within(angle: float, degrees: int) -> float:
    """The probability that |t| < sqrt(degrees) * tan(angle): for whole degrees a sum of powers of the cosine."""
    odd = degrees % 2
    term = math.cos(angle) if odd else 1.0
    total = 0.0
    for power in range(odd, degrees - 1, 2):
        total += term
        term *= (power + 1) / (power + 2) * math.cos(angle) ** 2
    area = math.sin(angle) * total
    return 2 / math.pi * (angle + area) if odd else area
