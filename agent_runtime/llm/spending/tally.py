"""Sums of what was spent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(slots=True)
class Spent:
    """A sum over questions, those that failed included."""

    questions: int = 0
    attempts: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    microdollars: int = 0

    def add(self, attempts: int, prompt_tokens: int, completion_tokens: int, microdollars: int) -> None:
        """One more question."""
        self.questions += 1
        self.attempts += attempts
        self.prompt_tokens += prompt_tokens
        self.completion_tokens += completion_tokens
        self.microdollars += microdollars


class Tally:
    """What one worker's questions cost, by model and phase; what each agent spent stands in the recorded calls."""

    def __init__(self) -> None:
        self._sums: dict[tuple[str, str], Spent] = {}

    def add(
        self,
        model: str,
        phase: str,
        attempts: int,
        prompt_tokens: int,
        completion_tokens: int,
        microdollars: int,
    ) -> None:
        """One question of `phase` to `model`, by its name in the launch."""
        spent = self._sums.get((model, phase))
        if spent is None:
            spent = self._sums[model, phase] = Spent()
        spent.add(attempts, prompt_tokens, completion_tokens, microdollars)

    def by_model_and_phase(self) -> Mapping[tuple[str, str], Spent]:
        """The sums, as they grow."""
        return self._sums

    def total(self) -> Spent:
        """Over all models and phases: of this worker's part of the run."""
        total = Spent()
        for spent in self._sums.values():
            total.questions += spent.questions
            total.attempts += spent.attempts
            total.prompt_tokens += spent.prompt_tokens
            total.completion_tokens += spent.completion_tokens
            total.microdollars += spent.microdollars
        return total
