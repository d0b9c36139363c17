"""What a model's tokens cost."""

from __future__ import annotations

from dataclasses import dataclass

_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Price:
    """Microdollars for a million tokens: 150_000 is 15 cents."""

    prompt: int = 0
    completion: int = 0

    def count_microdollars(self, prompt_tokens: int, completion_tokens: int) -> int:
        """What a call costs, rounded up to a whole microdollar: sums of calls are exact, and never too low."""
        if not self.prompt and not self.completion:
            return 0
        return -(-(prompt_tokens * self.prompt + completion_tokens * self.completion) // _MILLION)


FREE = Price()
