"""What may be spent in all."""

from __future__ import annotations

from collections.abc import Callable

from agent_runtime.llm.admission.limits import Load, Seat
from agent_runtime.model.errors import BudgetExceededError


class Budget:
    """So many tokens and microdollars, and never more: a call reserves what it may cost at most.

    A call that fits only once others have come back cheaper waits for them. `whose` is for messages.
    `spent` is what was spent before, where a run goes on.
    """

    def __init__(
        self,
        whose: str,
        *,
        tokens_max: int | None = None,
        microdollars_max: int | None = None,
        spent: Load | None = None,
    ) -> None:
        self._whose = whose
        self._tokens_max = tokens_max
        self._microdollars_max = microdollars_max
        self._tokens = spent.tokens if spent is not None else 0
        self._microdollars = spent.microdollars if spent is not None else 0
        self._out_tokens = 0
        self._out_microdollars = 0
        self._has_waiting = False
        self._wakes: list[Callable[[], None]] = []
        self.is_exhausted = False
        """Whether a call was refused."""

    @property
    def spent(self) -> Load:
        """By calls that have come back."""
        return Load(self._tokens, self._microdollars)

    def attach(self, wake: Callable[[], None], count_waiting: Callable[[], int]) -> None:
        """See Limit; one budget may hold for several models."""
        self._wakes.append(wake)

    def wait_s(self, load: Load, now_s: float) -> float | None:
        """See Limit."""
        fits = True
        if self._tokens_max is not None:
            self._check(self._tokens, load.tokens, self._tokens_max, "tokens")
            fits = self._tokens + self._out_tokens + load.tokens <= self._tokens_max
        if self._microdollars_max is not None:
            self._check(self._microdollars, load.microdollars, self._microdollars_max, "microdollars")
            fits = fits and self._microdollars + self._out_microdollars + load.microdollars <= self._microdollars_max
        self._has_waiting = self._has_waiting or not fits
        return 0.0 if fits else None

    def admit(self, seat: Seat) -> None:
        """See Limit."""
        self._out_tokens += seat.tokens
        self._out_microdollars += seat.microdollars

    def settle(self, seat: Seat, load: Load) -> None:
        """See Limit."""
        self._out_tokens -= seat.tokens
        self._out_microdollars -= seat.microdollars
        self._tokens += load.tokens
        self._microdollars += load.microdollars
        if self._has_waiting:
            self._has_waiting = False
            for wake in self._wakes:
                wake()

    async def aclose(self) -> None:
        """See Limit; nobody shares it."""

    def _check(self, spent: int, asked: int, maximum: int, unit: str) -> None:
        if spent + asked > maximum:
            self.is_exhausted = True
            raise BudgetExceededError(self._whose, spent, maximum, unit)
