"""Limits of a minute that several nodes share."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from agent_runtime.llm.admission.limits import Load, Permit
from agent_runtime.llm.admission.quota_shares import (
    REFUSED_RETRY_S,
    RETRY_S,
    QuotaRefusedError,
    QuotaShares,
    QuotaUnavailableError,
    Want,
)
from agent_runtime.llm.errors import ModelRateError, ModelSetupError

logger = logging.getLogger("ecumene.runtime")


@dataclass(slots=True)
class _Held:
    """A share in use. Times are of the gateway's clock."""

    id: int
    requests: int
    tokens: int
    ends_s: float


class SharedWindow:
    """Limits of a minute that hold over all who share them. See Limit.

    What is taken and not used in time is given back with the next taking, and so is what answers did not
    cost. While the quota cannot be asked, calls wait.
    """

    def __init__(
        self,
        model: str,
        shares: QuotaShares,
        *,
        requests_per_minute: int | None,
        tokens_per_minute: int | None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._model = model
        self._shares = shares
        # A quarter of a second's worth at a time at least, so that nobody asks for each call; what is not
        # used goes back.
        self._requests_least = max(1, (requests_per_minute or 0) // 240)
        self._tokens_max = tokens_per_minute
        self._clock = clock
        self._sleep = sleep
        self._held: list[_Held] = []
        self._unused: dict[int, list[int]] = {}
        self._share_of: dict[Permit, list[tuple[int, int]]] = {}
        self._refill: asyncio.Task[None] | None = None
        self._wanted = Load()
        self._is_cut_off = False
        self._refused = ""
        self._wake: Callable[[], None] = lambda: None
        self._count_waiting: Callable[[], int] = lambda: 0

    def attach(self, wake: Callable[[], None], count_waiting: Callable[[], int]) -> None:
        """See Limit."""
        self._wake = wake
        self._count_waiting = count_waiting

    def wait_s(self, load: Load, now_s: float) -> float | None:
        """See Limit."""
        if self._tokens_max is not None and load.tokens > self._tokens_max:
            raise ModelRateError(self._model, load.tokens, self._tokens_max)
        self._drop_ended(now_s)
        requests = sum(held.requests for held in self._held)
        tokens = sum(held.tokens for held in self._held)
        if requests >= 1 and (self._tokens_max is None or tokens >= load.tokens):
            return 0.0
        if self._refused:
            raise ModelSetupError(self._model, self._refused)
        self._wanted = load
        if self._refill is None:
            self._refill = asyncio.get_running_loop().create_task(self._take_more(), name=f"quota of {self._model}")
        return None

    def admit(self, permit: Permit) -> None:
        """See Limit."""
        self._held[0].requests -= 1  # those without requests are let go of
        needed, parts = permit.tokens, []
        if self._tokens_max is not None:
            for held in self._held:
                taken = min(needed, held.tokens)
                held.tokens -= taken
                needed -= taken
                parts.append((held.id, taken))
            self._share_of[permit] = parts
        for held in [held for held in self._held if held.requests == 0]:
            self._held.remove(held)
            self._let_go(held)

    def settle(self, permit: Permit, load: Load) -> None:
        """See Limit."""
        if self._tokens_max is None:
            return
        parts = self._share_of.pop(permit)
        over = permit.tokens - load.tokens
        for share, taken in reversed(parts):
            returned = over if over < 0 else min(over, taken)
            if returned:
                self._unused.setdefault(share, [0, 0])[1] += returned
            over -= returned

    async def aclose(self) -> None:
        """See Limit."""
        self._wake = lambda: None
        if self._refill is not None:
            self._refill.cancel()
            await asyncio.gather(self._refill, return_exceptions=True)
        for held in self._held:
            self._let_go(held)
        self._held.clear()
        unused = self._collect_unused()
        if unused:
            try:
                await self._shares.give_back(0, 0, unused)
            except (QuotaUnavailableError, QuotaRefusedError) as error:
                logger.warning("the quota of %s gets nothing back: %s", self._model, error)

    async def _take_more(self) -> None:
        """Takes shares until one has come."""
        try:
            while True:
                count = max(self._requests_least, self._count_waiting())
                tokens = self._wanted.tokens
                want = Want(count, count * tokens if self._tokens_max is not None else 0, tokens)
                asked_s = self._clock()
                unused = self._collect_unused()
                try:
                    share = await self._shares.take(want, unused)
                except QuotaUnavailableError as error:
                    if not self._is_cut_off:
                        logger.warning("no share of the quota of %s: %s", self._model, error)
                    self._is_cut_off = True
                    await self._sleep(RETRY_S)
                    continue
                except QuotaRefusedError as error:
                    logger.warning("no share of the quota of %s: %s", self._model, error)
                    self._refused = f"its quota: {error}"
                    self._wake()
                    await self._sleep(REFUSED_RETRY_S)
                    self._refused = ""
                    return
                self._is_cut_off = False
                if share.requests:
                    # From the asking on: whoever keeps the quota counts from the later moment at which it gave.
                    self._held.append(_Held(share.id, share.requests, share.tokens, asked_s + share.ttl_s))
                    return
                await self._sleep(share.wait_s)
        finally:
            self._refill = None
            self._wake()

    def _drop_ended(self, now_s: float) -> None:
        for held in [held for held in self._held if held.ends_s <= now_s]:
            self._held.remove(held)
            self._let_go(held)

    def _let_go(self, held: _Held) -> None:
        if held.requests or held.tokens:
            unused = self._unused.setdefault(held.id, [0, 0])
            unused[0] += held.requests
            unused[1] += held.tokens

    def _collect_unused(self) -> dict[int, tuple[int, int]]:
        unused = {share: (requests, tokens) for share, (requests, tokens) in self._unused.items()}
        self._unused.clear()
        return unused
