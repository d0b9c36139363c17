"""What may be spent in all."""

from __future__ import annotations

from collections.abc import Callable

from agent_runtime.llm.admission.limits import Load, Permit
from agent_runtime.model.errors import BudgetExceededError


class Budget:
    """So many tokens and microdollars, and never more: a call reserves what it may cost at most.

    A call that fits only once others have come back cheaper waits for them. `whose` is for messages.
    `spent` is what was spent before, where a run goes on. One that fits no more is refused, or with `holds` held back
    until it is cancelled, so that a run can be stopped before any turn has gone without its answer.
    """

    def __init__(
        self,
        whose: str,
        *,
        tokens_max: int | None = None,
        microdollars_max: int | None = None,
        spent: Load | None = None,
        holds: bool = False,
    ) -> None:
        self._whose = whose
        self._tokens_max = tokens_max
        self._microdollars_max = microdollars_max
        self._tokens = spent.tokens if spent is not None else 0
        self._microdollars = spent.microdollars if spent is not None else 0
        self._out_tokens = 0
        self._out_microdollars = 0
        self._has_waiting = False
        self._holds = holds
        self._wakes: list[Callable[[], None]] = []
        self.refusal: BudgetExceededError | None = None
        """Why a call was refused or held back, the first time."""

    @property
    def is_exhausted(self) -> bool:
        """Whether a call was refused or held back."""
        return self.refusal is not None

    @property
    def spent(self) -> Load:
        """By calls that have come back."""
        return Load(self._tokens, self._microdollars)

    def attach(self, wake: Callable[[], None], count_waiting: Callable[[], int]) -> None:
        """See Limit; one budget may hold for several models."""
        self._wakes.append(wake)

    def wait_s(self, load: Load, now_s: float) -> float | None:
        """See Limit."""
        if (refusal := self._find_refusal(load)) is not None:
            self.refusal = self.refusal or refusal
            if self._holds:
                return None
            raise refusal
        fits = True
        if self._tokens_max is not None:
            fits = self._tokens + self._out_tokens + load.tokens <= self._tokens_max
        if self._microdollars_max is not None:
            fits = fits and self._microdollars + self._out_microdollars + load.microdollars <= self._microdollars_max
        self._has_waiting = self._has_waiting or not fits
        return 0.0 if fits else None

    def admit(self, permit: Permit) -> None:
        """See Limit."""
        self._out_tokens += permit.tokens
        self._out_microdollars += permit.microdollars

    def settle(self, permit: Permit, load: Load) -> None:
        """See Limit."""
        self._out_tokens -= permit.tokens
        self._out_microdollars -= permit.microdollars
        self._tokens += load.tokens
        self._microdollars += load.microdollars
        if self._has_waiting:
            self._has_waiting = False
            for wake in self._wakes:
                wake()

    async def aclose(self) -> None:
        """See Limit; nobody shares it."""

    def _find_refusal(self, load: Load) -> BudgetExceededError | None:
        """Why a call will never fit."""
        for spent, asked, maximum, unit in (
            (self._tokens, load.tokens, self._tokens_max, "tokens"),
            (self._microdollars, load.microdollars, self._microdollars_max, "microdollars"),
        ):
            if maximum is not None and spent + asked > maximum:
                return BudgetExceededError(self._whose, spent, maximum, unit)
        return None
