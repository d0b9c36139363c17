"""What scripted models take, by their spec."""

from __future__ import annotations

from ecumene.sim.specs.models import ModelSpec


def typical_latency_s(model: ModelSpec) -> float:
    """What a scripted model takes for one answer, in the middle; 0 for others, of which nothing is known."""
    latency = model.latency
    if latency is None:
        return model.latency_ms / 1000
    middle = {
        "fixed": latency.ms,
        "uniform": (latency.low_ms + latency.high_ms) / 2,
        "lognormal": latency.median_ms,
        "exponential": latency.mean_ms,
    }
    return middle[latency.kind] / 1000
