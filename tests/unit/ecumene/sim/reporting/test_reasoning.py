"""Every number is in one class, and best responses of n steps are n steps away."""

from __future__ import annotations

import numpy as np
import pytest
from ecumene.sim.reporting.reasoning import CLASSES, count_steps


@pytest.mark.parametrize("ratio", [1 / 2, 2 / 3, 0.51])
@pytest.mark.parametrize("known", [50.0, 12.5])
def test_best_responses_are_as_many_steps_away_as_they_took(ratio: float, known: float) -> None:
    for step in range(4):
        steps = count_steps(np.array([known * ratio**step]), known=known, ratio=ratio)
        assert steps == [int(place == step + 1) for place in range(len(CLASSES))]
    below = count_steps(np.array([0.0, known * ratio**4.5]), known=known, ratio=ratio)
    assert below[CLASSES.index("more than 3")] == 2
    assert count_steps(np.array([known * 1.01]), known=known, ratio=ratio)[0] == 1
    assert count_steps(np.array([known * ratio**1.5]), known=known, ratio=ratio)[-1] == 1


def test_each_number_is_in_one_class(seed: int) -> None:
    numbers = np.random.default_rng(seed).uniform(0, 100, 10_000)
    steps = count_steps(numbers, known=50.0, ratio=2 / 3)
    assert sum(steps) == len(numbers)
    assert min(steps) >= 0
    assert count_steps(numbers[:0], known=50.0, ratio=2 / 3) == [0] * len(CLASSES)
