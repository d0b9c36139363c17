"""Requests and tokens a minute, so that no minute sees more."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from agent_runtime.llm.admission.limits import Load, Seat
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
        self._seats: deque[Seat] = deque()
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
        if self._requests_max is not None and len(self._seats) >= self._requests_max:
            wait_s = find_end_s(self._seats[len(self._seats) - self._requests_max]) - now_s
        if self._tokens_max is not None and self._tokens + load.tokens > self._tokens_max:
            wait_s = max(wait_s, self._wait_tokens_s(load.tokens, self._tokens_max, now_s))
        return wait_s

    def admit(self, seat: Seat) -> None:
        """See Limit."""
        self._seats.append(seat)
        self._tokens += seat.tokens

    def settle(self, seat: Seat, load: Load) -> None:
        """See Limit."""
        assert seat.left_s is not None
        self._forget(seat.left_s)
        if seat.entered_s + WINDOW_S + TRANSIT_S > seat.left_s:
            self._tokens += load.tokens - seat.tokens

    async def aclose(self) -> None:
        """See Limit; nobody shares it."""

    def _wait_tokens_s(self, tokens: int, tokens_max: int, now_s: float) -> float:
        if tokens > tokens_max:
            raise ModelRateError(self._model, tokens, tokens_max)
        left = self._tokens
        for seat in self._seats:
            left -= seat.tokens
            if left + tokens <= tokens_max:
                return find_end_s(seat) - now_s
        return 0.0

    def _forget(self, now_s: float) -> None:
        seats = self._seats
        while seats and find_end_s(seats[0]) <= now_s:
            self._tokens -= seats.popleft().tokens


def find_end_s(seat: Seat) -> float:
    """Until when a request weighs."""
    if seat.left_s is None:
        return seat.entered_s + WINDOW_S + TRANSIT_S
    return min(seat.entered_s + TRANSIT_S, seat.left_s) + WINDOW_S
