"""Budgets that several nodes share."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from agent_runtime.llm.admission.limits import Load, Permit
from agent_runtime.llm.admission.quota_shares import (
    REFUSED_RETRY_S,
    RETRY_S,
    QuotaRefusedError,
    QuotaShares,
    QuotaUnavailableError,
)
from agent_runtime.llm.errors import ModelSetupError
from agent_runtime.model.errors import BudgetExceededError

BUDGET_PARTS = 100
"""A node draws a hundredth of a budget at a time: about what a node that is killed takes with it."""

logger = logging.getLogger("ecumene.runtime")


class SharedBudget:
    """A budget that holds over all who share it, drawn in parts. See Limit, and Budget.

    A node keeps what it has drawn until it is spent or the gateway closes; a node that is killed takes at
    most its part with it. So a call may be refused (or with `holds` held back) although another node still holds up to
    a hundredth of the budget.
    """

    def __init__(
        self,
        whose: str,
        shares: QuotaShares,
        *,
        tokens_max: int | None,
        microdollars_max: int | None,
        holds: bool = False,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._whose = whose
        self._shares = shares
        self._tokens_max = tokens_max
        self._microdollars_max = microdollars_max
        self._sleep = sleep
        self._left_tokens = self._left_microdollars = 0
        self._out = 0
        self._refused_least: Load | None = None
        """The last draw that came to nothing: what needs no less is refused, something smaller is asked for."""
        self._wanted = Load()
        self._is_cut_off = False
        self._refused = ""
        self._spent_tokens = self._spent_microdollars = 0
        self._refill: asyncio.Task[None] | None = None
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
        """By calls of this node that have come back."""
        return Load(self._spent_tokens, self._spent_microdollars)

    def attach(self, wake: Callable[[], None], count_waiting: Callable[[], int]) -> None:
        """See Limit; one budget may hold for several models."""
        self._wakes.append(wake)

    def wait_s(self, load: Load, now_s: float) -> float | None:
        """See Limit."""
        lacks_tokens = self._tokens_max is not None and load.tokens > self._left_tokens
        lacks_money = self._microdollars_max is not None and load.microdollars > self._left_microdollars
        if not lacks_tokens and not lacks_money:
            return 0.0
        if self._is_dry_for(load):
            if self._out:
                return None
            maximum = self._tokens_max if lacks_tokens else self._microdollars_max
            left = self._left_tokens if lacks_tokens else self._left_microdollars
            unit = "tokens" if lacks_tokens else "microdollars"
            refusal = BudgetExceededError(self._whose, (maximum or 0) - left, maximum or 0, unit)
            self.refusal = self.refusal or refusal
            if self._holds:
                return None
            raise refusal
        if self._refused:
            raise ModelSetupError(self._whose, self._refused)
        self._wanted = load
        if self._refill is None:
            self._refill = asyncio.get_running_loop().create_task(self._draw_more(), name=f"budget of {self._whose}")
        return None

    def admit(self, permit: Permit) -> None:
        """See Limit."""
        self._out += 1
        self._left_tokens -= permit.tokens
        self._left_microdollars -= permit.microdollars

    def settle(self, permit: Permit, load: Load) -> None:
        """See Limit."""
        self._out -= 1
        self._left_tokens += permit.tokens - load.tokens
        self._left_microdollars += permit.microdollars - load.microdollars
        self._spent_tokens += load.tokens
        self._spent_microdollars += load.microdollars
        if self._refused_least is not None:
            self._wake()

    async def aclose(self) -> None:
        """See Limit."""
        self._wakes.clear()
        if self._refill is not None:
            self._refill.cancel()
            await asyncio.gather(self._refill, return_exceptions=True)
        tokens = self._left_tokens if self._tokens_max is not None else 0
        microdollars = self._left_microdollars if self._microdollars_max is not None else 0
        self._left_tokens = self._left_microdollars = 0
        if tokens or microdollars:
            try:
                await self._shares.give_back(tokens, microdollars, {})
            except (QuotaUnavailableError, QuotaRefusedError) as error:
                logger.warning("the budget of %s gets nothing back: %s", self._whose, error)

    async def _draw_more(self) -> None:
        try:
            while True:
                want, least = self._find_want()
                try:
                    drawn = await self._shares.draw(want.tokens, want.microdollars, least)
                except QuotaUnavailableError as error:
                    if not self._is_cut_off:
                        logger.warning("no part of the budget of %s: %s", self._whose, error)
                    self._is_cut_off = True
                    await self._sleep(RETRY_S)
                    continue
                except QuotaRefusedError as error:
                    logger.warning("no part of the budget of %s: %s", self._whose, error)
                    self._refused = f"its quota: {error}"
                    self._wake()
                    await self._sleep(REFUSED_RETRY_S)
                    self._refused = ""
                    return
                self._is_cut_off = False
                self._left_tokens += drawn.tokens
                self._left_microdollars += drawn.microdollars
                if drawn.tokens < least.tokens or drawn.microdollars < least.microdollars:
                    self._refused_least = least
                return
        finally:
            self._refill = None
            self._wake()

    def _wake(self) -> None:
        for wake in self._wakes:
            wake()

    def _is_dry_for(self, load: Load) -> bool:
        """Whether as little as a call lacks was refused before."""
        refused, lacking = self._refused_least, self._find_lack(load)
        return refused is not None and lacking.tokens >= refused.tokens and lacking.microdollars >= refused.microdollars

    def _find_lack(self, load: Load) -> Load:
        """What a call needs beyond what is left here."""
        tokens = 0 if self._tokens_max is None else max(0, load.tokens - self._left_tokens)
        microdollars = 0 if self._microdollars_max is None else max(0, load.microdollars - self._left_microdollars)
        return Load(tokens, microdollars)

    def _find_want(self) -> tuple[Load, Load]:
        """What to draw, and the least of it that helps."""
        least = self._find_lack(self._wanted)
        tokens = max(least.tokens, (self._tokens_max or 0) // BUDGET_PARTS) if least.tokens else 0
        microdollars = (
            max(least.microdollars, (self._microdollars_max or 0) // BUDGET_PARTS) if least.microdollars else 0
        )
        return Load(tokens, microdollars), least
