"""How many steps of best response numbers are away from what everybody knew: Nagel's classes of one round.

Nagel 1995, Unraveling in guessing games, American Economic Review 85(5): with p the ratio and r what is known (50 in
round 1, later the mean of the round before), n steps are the numbers between r·p^(n + 1/4) and r·p^(n - 1/4).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

STEPS_MAX = 3
CLASSES = (
    "above r",
    "0 steps",
    "1 step",
    "2 steps",
    "3 steps",
    f"more than {STEPS_MAX}",
    "between two steps",
)
"""What `count_steps` counts, in its order."""


def count_steps(numbers: np.ndarray, *, known: float, ratio: float) -> Sequence[int]:
    """Numbers by their steps from `known`, in the order of CLASSES; each is in one class.

    For 0 < ratio < 1. 0 steps reach no higher than `known` itself; more than three are all below the third class.
    """
    edges = [(known * ratio ** (step + 0.25), known * ratio ** (step - 0.25)) for step in range(STEPS_MAX + 1)]
    edges[0] = (edges[0][0], known)
    counted = [int((numbers > known).sum())]
    counted += [int(((numbers >= low) & (numbers <= high)).sum()) for low, high in edges]
    counted.append(int((numbers < edges[-1][0]).sum()))
    return [*counted, len(numbers) - sum(counted)]
