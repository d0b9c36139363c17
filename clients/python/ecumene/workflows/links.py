"""What a caller needs of whatever carries its messages."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Protocol

from ecumene.workflows.calls import Call


class Link(Protocol):
    """How a caller's messages reach hosts. Its methods are called in the caller's loop."""

    def send(self, call: Call, host: str, text: str) -> None:
        """Tell a host of a call."""

    def release(self, calls: Sequence[Call]) -> None:
        """Results that nobody needs any more."""

    def give_up(self, call: Call, text: str) -> None:
        """Write an outcome, unless there is one; `take_outcome` follows with the one that counts."""

    def fetch(self, call: Call) -> Awaitable[str]:
        """A large outcome."""
