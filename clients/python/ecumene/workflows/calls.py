"""Calls as their caller knows them, from the moment they are sent until nobody refers to their results."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ecumene.workflows.errors import Failure
from ecumene.workflows.values import Tree

if TYPE_CHECKING:
    from ecumene.workflows.callers import Caller
    from ecumene.workflows.placeholders import Placeholder
    from ecumene.workflows.targets import Target


MAKE, CALL, STOP = "make", "call", "stop"


class Call:
    """One call as its caller knows it. Changed under the caller's lock, or in its loop alone."""

    __slots__ = (
        "attempts_left",
        "caller",
        "do",
        "had_large",
        "is_done",
        "is_dropped",
        "method",
        "number",
        "pinned",
        "pins",
        "resent",
        "sent_to",
        "size",
        "target",
        "text",
        "value",
        "waiters",
    )

    def __init__(
        self,
        caller: Caller,
        number: int,
        target: Target,
        do: str,
        method: str,
        text: str,
        pins: list[Placeholder],
        retry: int,
    ) -> None:
        self.caller = caller
        self.number = number
        self.target = target
        self.do = do
        self.method = method
        self.text: str | None = text
        """Its message; when it is done, its outcome; None when that is a large one, or has expired."""
        self.pins = pins
        """Placeholders among its arguments: their results live until this one is done."""
        self.pinned = 0
        """Calls under way that have it among their arguments."""
        self.sent_to = ""
        """Host that was told of it last."""
        self.attempts_left = retry
        self.resent = 0
        self.size = len(text)
        self.had_large = False
        """Its outcome had to be fetched."""
        self.is_done = False
        self.is_dropped = False
        """Nobody refers to its placeholder any more."""
        self.value: Any = UNREAD
        self.waiters: list[Callable[[], None]] = []

    @property
    def is_making(self) -> bool:
        """Whether it makes its actor."""
        return self.do == MAKE

    def __str__(self) -> str:
        return f"{self.target.class_name.rpartition(':')[2]}.{self.method or '__init__'}"


class _Unread:
    """Stands for a value that has not been made yet."""


UNREAD = _Unread()


class Outcome:
    """What a call came to, as it travels: {"ok": tree} or {"error": failure}."""

    __slots__ = ("failure", "tree")

    def __init__(self, tree: Tree = None, failure: Failure | None = None) -> None:
        self.tree = tree
        self.failure = failure
