"""What a call may cost, and what may hold it back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from agent_runtime.llm.endpoints import Endpoint


@dataclass(frozen=True, slots=True)
class Load:
    """What one call may cost at most: tokens sent and received, and millionths of a dollar."""

    tokens: int = 0
    microdollars: int = 0


@dataclass(slots=True, eq=False)
class Permit:
    """One call that was let in.

    `tokens` and `microdollars` are what it may cost while it is out, and what it did cost afterwards.
    Times are seconds of the gateway's clock; `released_s` is None while it is out.
    """

    endpoint: Endpoint
    tokens: int
    microdollars: int
    granted_s: float
    released_s: float | None = None


class Limit(Protocol):
    """Something that calls have to pass before they are made."""

    def attach(self, wake: Callable[[], None], count_waiting: Callable[[], int]) -> None:
        """Tells whom to wake when calls may pass that could not, and who knows how many wait."""

    def wait_s(self, load: Load, now_s: float) -> float | None:
        """0.0 if a call may pass now; else in how many seconds asking again makes sense, None = when some
        call has come back, or when the limit itself wakes the dispatch.

        Raises:
            ModelRateError, BudgetExceededError: it may never pass.
            ModelSetupError: whoever keeps the limit has refused, and is not asked for a while.
        """

    def admit(self, permit: Permit) -> None:
        """Lets a call pass for which `wait_s` was 0.0 at this moment."""

    def settle(self, permit: Permit, load: Load) -> None:
        """Takes in what a call did cost. `permit` still holds what it might have cost."""

    async def aclose(self) -> None:
        """Gives back what is left of what others share. Nothing may wait any more. May be called twice."""
