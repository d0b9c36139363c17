"""Requests and tokens a minute, so that no minute sees more."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from agent_runtime.llm.admission.limits import Load, Permit
from agent_runtime.llm.errors import ModelRateError

WINDOW_S = 60.05
"""A minute, and what two clocks may differ by in it."""
TRANSIT_S = 2.0
"""How long a request may be on its way before the endpoint counts it; an answer shows that it has been counted."""


class RateWindow:
    """At most so many requests and tokens in any 60 seconds, as the endpoint counts them.

    A request is counted somewhere between its leaving and its answer, but within two seconds. So it weighs
    from its leaving until a minute after its answer, or 62 s after its leaving, whichever comes first: whenever
    the endpoint counts, no 60 s of its clock see more. At least 60/62 of a limit can be used.

    Tokens are reserved as estimated (what is sent, and `max_tokens`) and corrected by the answer.
    """

    def __init__(
        self,
        model: str,
        *,
        requests_per_minute: int | None = None,
        tokens_per_minute: int | None = None,
    ) -> None:
        self._model = model
        self._requests_max = requests_per_minute
        self._tokens_max = tokens_per_minute
        self._permits: deque[Permit] = deque()
        self._tokens = 0

    def widen(self, *, requests_per_minute: int | None, tokens_per_minute: int | None) -> None:
        """Allow more than before; never less, and never what was not bounded a bound."""
        if self._requests_max is not None:
            self._requests_max = max(self._requests_max, requests_per_minute or 0)
        if self._tokens_max is not None:
            self._tokens_max = max(self._tokens_max, tokens_per_minute or 0)

    def attach(self, wake: Callable[[], None], count_waiting: Callable[[], int]) -> None:
        """See Limit; it always knows when a call may pass."""

    def wait_s(self, load: Load, now_s: float) -> float | None:
        """See Limit."""
        self._forget(now_s)
        wait_s = 0.0
        if self._requests_max is not None and len(self._permits) >= self._requests_max:
            wait_s = find_end_s(self._permits[len(self._permits) - self._requests_max]) - now_s
        if self._tokens_max is not None and self._tokens + load.tokens > self._tokens_max:
            wait_s = max(wait_s, self._wait_tokens_s(load.tokens, self._tokens_max, now_s))
        return wait_s

    def admit(self, permit: Permit) -> None:
        """See Limit."""
        self._permits.append(permit)
        self._tokens += permit.tokens

    def settle(self, permit: Permit, load: Load) -> None:
        """See Limit."""
        assert permit.released_s is not None
        self._forget(permit.released_s)
        if permit.granted_s + WINDOW_S + TRANSIT_S > permit.released_s:
            self._tokens += load.tokens - permit.tokens

    async def aclose(self) -> None:
        """See Limit; nobody shares it."""

    def _wait_tokens_s(self, tokens: int, tokens_max: int, now_s: float) -> float:
        if tokens > tokens_max:
            raise ModelRateError(self._model, tokens, tokens_max)
        left = self._tokens
        for permit in self._permits:
            left -= permit.tokens
            if left + tokens <= tokens_max:
                return find_end_s(permit) - now_s
        return 0.0

    def _forget(self, now_s: float) -> None:
        permits = self._permits
        while permits and find_end_s(permits[0]) <= now_s:
            self._tokens -= permits.popleft().tokens


def find_end_s(permit: Permit) -> float:
    """Until when a request weighs."""
    if permit.released_s is None:
        return permit.granted_s + WINDOW_S + TRANSIT_S
    return min(permit.granted_s + TRANSIT_S, permit.released_s) + WINDOW_S
