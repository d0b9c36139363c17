"""What a gateway needs of whoever keeps a limit that several nodes share.

Each node takes shares of the limit and uses them up; the keeper never hands out more than there is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from agent_runtime.llm.admission.limits import Load

RETRY_S = 1.0
REFUSED_RETRY_S = 30.0
"""For so long questions fail at once, with the reason, after the quota has refused."""
Unused = Mapping[int, tuple[int, int]]
"""Requests and tokens of shares that were not used, by the ids of the shares."""


class QuotaUnavailableError(Exception):
    """Whoever keeps the quota cannot be asked now. Whether the asking had its effect is not known: what it may
    have given counts as used, what it may have given back as not."""


class QuotaRefusedError(Exception):
    """The quota says no, is gone, or answers what no quota does: asking each second would not help. The message says
    why, in one line."""


@dataclass(frozen=True, slots=True)
class Want:
    """What a node asks for. Less than `least_tokens` (and one request) is of no use to it."""

    requests: int
    tokens: int
    least_tokens: int


@dataclass(frozen=True, slots=True)
class Share:
    """A part of a limit of a minute: so many requests and tokens, to be sent within `ttl_s` of the asking.

    Empty when there is none now: then asking again makes sense in `wait_s`.
    """

    id: int
    requests: int
    tokens: int
    ttl_s: float
    wait_s: float = 0.0


class QuotaShares(Protocol):
    """One quota, as one node sees it.

    All methods raise QuotaUnavailableError, QuotaRefusedError.
    """

    async def take(self, want: Want, unused: Unused) -> Share:
        """A share of the minute. `unused` gives back requests and tokens of earlier shares, by their ids;
        negative tokens: more were used than taken."""
        ...

    async def draw(self, tokens: int, microdollars: int, least: Load) -> Load:
        """A part of the budget, to keep; less than `least` only when no more is left, and then all of it is 0."""
        ...

    async def give_back(self, tokens: int, microdollars: int, unused: Unused) -> None:
        """What was drawn and not spent, and what of shares was not used."""
        ...
