"""The guess game: its target, and what follows from it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

LOW = 0.0
HIGH = 100.0
MIDDLE = 50.0
# A target rule is told as a fraction if it is one of the usual ones.
_DENOMINATOR_MAX = 100


@dataclass(frozen=True, slots=True)
class GuessGame:
    """Every player names a number in [0, 100]; nearest to `ratio` × mean + `offset` wins.

    `ratio` is positive. `offset` is in the units of the numbers; the variant 5 + mean/2 is
    `GuessGame(ratio=0.5, offset=5)`.
    """

    ratio: float
    offset: float = 0.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.ratio) and self.ratio > 0):
            raise ValueError(f"ratio must be a positive number, not {self.ratio!r}")
        if not math.isfinite(self.offset):
            raise ValueError(f"offset must be a finite number, not {self.offset!r}")

    def find_target(self, mean: float) -> float:
        """The winning number for a mean of the numbers."""
        return self.ratio * mean + self.offset

    def find_reference(self, last_winner: float | None) -> float:
        """What players take the others for: last round's mean, as its winning number tells it.

        50 where nothing was told, the mean of equally likely numbers.
        """
        if last_winner is None:
            return MIDDLE
        return clip((last_winner - self.offset) / self.ratio)

    def respond(self, reference: float, steps: int) -> float:
        """The best response to the best response to … (`steps` times) to a mean of `reference`.

        ratio^k · reference + offset · (1 − ratio^k) / (1 − ratio), kept in [0, 100]; with no offset and a
        reference of 50 it is the level-k number 50 · ratio^k of Nagel (1995). A player's own weight in
        the mean is neglected, as there.
        """
        shrink = self.ratio**steps
        if self.offset == 0:
            return clip(shrink * reference)
        drift = steps if self.ratio == 1 else (1 - shrink) / (1 - self.ratio)
        return clip(shrink * reference + self.offset * drift)

    @property
    def equilibrium(self) -> float:
        """Where best responses lead from a mean of 50: the number of players who all expect that of all."""
        if self.ratio < 1:
            return clip(self.offset / (1 - self.ratio))
        moved = self.find_target(MIDDLE) - MIDDLE
        if moved == 0:
            return MIDDLE
        return HIGH if moved > 0 else LOW

    def describe_target(self) -> str:
        """The target in words for a prompt, such as `2/3 of the average`."""
        fraction = Fraction(self.ratio).limit_denominator(_DENOMINATOR_MAX)
        exact = math.isclose(float(fraction), self.ratio, rel_tol=1e-9)
        share = "the average" if self.ratio == 1 else f"{fraction if exact else self.ratio} of the average"
        if self.offset == 0:
            return share
        return f"{share} {'plus' if self.offset > 0 else 'minus'} {abs(self.offset):g}"


def clip(number: float) -> float:
    """The nearest number that may be named."""
    return min(max(number, LOW), HIGH)
