"""One endpoint of a model: what it is doing, what it takes, when it may be asked again."""

from __future__ import annotations

from agent_runtime.llm.endpoints.breaker import FAILURES_MAX, Breaker
from agent_runtime.llm.errors import ModelEndpointError, ModelError, ModelTimeoutError, ModelUnavailableError
from agent_runtime.llm.provider import Provider

BUSY_FIRST_S = 0.5
BUSY_MAX_S = 20.0
PAUSE_MAX_S = 600.0
"""Of a `Retry-After`: an endpoint that asks for a day is asked again sooner, by one call at a time."""


class Endpoint:
    """A provider with a name, its share of the calls by `weight`, and at most `in_flight_max` calls at a time.

    An endpoint that says it is busy (429, or a `Retry-After`) gets no call before the time that it asked for, or
    half a second that doubles; from then on half as many at a time as before, and one more whenever as many as it
    is given at a time have been answered.
    """

    __slots__ = (
        "_busy_s",
        "_growth",
        "answers",
        "breaker",
        "failures",
        "in_flight",
        "in_flight_max",
        "name",
        "paused_until_s",
        "provider",
        "room",
        "weight",
    )

    def __init__(
        self,
        provider: Provider,
        *,
        name: str = "",
        weight: float = 1.0,
        in_flight_max: int = 64,
        breaker_failures: int = FAILURES_MAX,
    ) -> None:
        if not weight > 0 or in_flight_max < 1:
            raise ValueError("weight must be above 0, in_flight_max starts at 1")
        self.provider = provider
        self.name = name or repr(provider)
        self.weight = weight
        self.in_flight_max = in_flight_max
        self.room = in_flight_max
        self.in_flight = 0
        self.answers = 0
        self.failures = 0
        self.breaker = Breaker(breaker_failures)
        self.paused_until_s = 0.0
        self._busy_s = 0.0
        self._growth = 0.0

    @property
    def load(self) -> float:
        """Calls in flight, one more included, in relation to the weight.

        Each failure towards the breaker's opening counts as one more in flight: an endpoint that has just died has
        nothing in flight, and every question that it failed would come back to it first.
        """
        return (self.in_flight + self.breaker.strikes + 1) / self.weight

    def wait_s(self, now_s: float) -> float | None:
        """0.0 if it takes a call now, else the seconds until it may, None = when a call comes back."""
        if self.in_flight >= self.room:
            return None
        wait_s = self.breaker.wait_s(now_s)
        if wait_s is None:
            return None
        return max(wait_s, self.paused_until_s - now_s, 0.0)

    def widen(self, in_flight_max: int) -> None:
        """Take more calls at a time than before; never fewer."""
        more = max(0, in_flight_max - self.in_flight_max)
        self.in_flight_max += more
        self.room += more

    def find_dead_s(self, now_s: float) -> float | None:
        """Seconds until it takes calls again, if it takes none for a while whoever comes back; else None."""
        paused_s = self.paused_until_s - now_s
        if self.breaker.is_closed:
            return paused_s if paused_s > 0 else None
        return max(self.breaker.wait_s(now_s) or 0.0, paused_s)

    def try_enter(self, now_s: float) -> bool:
        """Whether it takes a call now, which then goes to it."""
        if self.breaker.is_untroubled and self.in_flight < self.room and now_s >= self.paused_until_s:
            self.in_flight += 1  # as nearly always
            return True
        if self.wait_s(now_s) != 0.0:
            return False
        self.in_flight += 1
        self.breaker.enter()
        return True

    def note_answer(self) -> None:
        """A call came back with a completion."""
        self.in_flight -= 1
        self.answers += 1
        self._busy_s = 0.0
        if self.room < self.in_flight_max:
            self._growth += 1 / self.room
            if self._growth >= 1:
                self._growth = 0.0
                self.room += 1
        if not self.breaker.is_untroubled:
            self.breaker.note_success()

    def note_error(self, error: BaseException, now_s: float, entered_s: float) -> None:
        """A call that came in at `entered_s` ended otherwise."""
        self.in_flight -= 1
        if not isinstance(error, ModelError):
            self.breaker.note_nothing(entered_s)
            return
        self.failures += 1
        if isinstance(error, ModelUnavailableError) and (error.http_status == 429 or error.retry_after_s is not None):
            self._pause(error.retry_after_s, now_s)
            self.breaker.note_success()
        elif isinstance(error, ModelUnavailableError | ModelTimeoutError):
            self.breaker.note_failure(now_s, entered_s)
        elif isinstance(error, ModelEndpointError):
            self.breaker.note_success()
        else:
            self.breaker.note_nothing(entered_s)

    def _pause(self, retry_after_s: float | None, now_s: float) -> None:
        if now_s < self.paused_until_s and retry_after_s is None:
            return  # one of those that were on their way together
        if now_s >= self.paused_until_s:
            self.room = max(1, self.room // 2)
            self._busy_s = min(BUSY_MAX_S, 2 * self._busy_s or BUSY_FIRST_S)
        asked_s = self._busy_s if retry_after_s is None else min(retry_after_s, PAUSE_MAX_S)
        self.paused_until_s = max(self.paused_until_s, now_s + asked_s)
