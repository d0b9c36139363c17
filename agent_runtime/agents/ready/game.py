"""The guess game: its target, and what follows from it."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction

LOW = 0.0
HIGH = 100.0
MIDDLE = 50.0
# A target rule is told as a fraction if it is one of the usual ones.
_DENOMINATOR_MAX = 100
_FIGURE = r"\d+/\d+|\d+(?:\.\d+)?(?:e[+-]?\d+)?"
_SHARE_TOLD = rf"(?:(?P<ratio>{_FIGURE}) of )?the average"
_OFFSET_TOLD = rf"(?:(?P<offset>{_FIGURE}) (?P<sign>plus|less than) )?"
_TARGET_TOLD = re.compile(_OFFSET_TOLD + _SHARE_TOLD)
_FORMULA_TOLD = re.compile(rf"= (?:(?P<offset>-?(?:{_FIGURE})) \+ )?(?:(?P<ratio>{_FIGURE}) · )?x(?!\w)")


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
        """The target in words for a prompt, such as `2/3 of the average` or `5 plus 1/2 of the average`."""
        share = "the average" if self.ratio == 1 else f"{self._tell_ratio()} of the average"
        if self.offset == 0:
            return share
        return f"{abs(self.offset):g} {'plus' if self.offset > 0 else 'less than'} {share}"

    def describe_formula(self) -> str:
        """The same as a formula of the average x, such as `5 + 1/2 · x`."""
        share = "x" if self.ratio == 1 else f"{self._tell_ratio()} · x"
        return share if self.offset == 0 else f"{self.offset:g} + {share}"

    def _tell_ratio(self) -> str:
        fraction = Fraction(self.ratio).limit_denominator(_DENOMINATOR_MAX)
        return str(fraction) if math.isclose(float(fraction), self.ratio, rel_tol=1e-9) else str(self.ratio)


def find_told_game(text: str) -> GuessGame | None:
    """The game whose target a prompt tells, in the words or after the `=` of the formula of above; None if none."""
    told = _FORMULA_TOLD.search(text) or _TARGET_TOLD.search(text)
    if told is None:
        return None
    sign = -1 if told.groupdict().get("sign") == "less than" else 1
    try:
        return GuessGame(float(Fraction(told["ratio"] or 1)), sign * float(Fraction(told["offset"] or 0)))
    except (ZeroDivisionError, OverflowError, ValueError):
        return None


def clip(number: float) -> float:
    """The nearest number that may be named."""
    return min(max(number, LOW), HIGH)
