"""Simulated thinking time."""

from __future__ import annotations

import pytest

from agent_runtime.llm.latency import (
    ExponentialLatency,
    FixedLatency,
    LatencyDistribution,
    LognormalLatency,
    UniformLatency,
)
from agent_runtime.model.draws import Draw


@pytest.mark.parametrize(
    ("distribution", "mean_ms", "within"),
    [
        (FixedLatency(20), 20, 0),
        (UniformLatency(10, 30), 20, 0.3),
        (ExponentialLatency(20), 20, 1),
        (LognormalLatency(20, 0.5), 20 * 2.718281828 ** (0.5**2 / 2), 0.6),
    ],
)
def test_distributions_have_the_mean_they_state(
    distribution: LatencyDistribution, mean_ms: float, within: float
) -> None:
    samples = [distribution.sample_ms(Draw(7, f"a{i}", 1, 0)) for i in range(10_000)]
    assert min(samples) >= 0
    assert sum(samples) / len(samples) == pytest.approx(mean_ms, abs=within)


@pytest.mark.parametrize("bad", [-1.0, float("nan"), float("inf")])
def test_impossible_latencies_are_refused(bad: float) -> None:
    with pytest.raises(ValueError):
        FixedLatency(bad)
    with pytest.raises(ValueError):
        UniformLatency(5, 4)
