"""What an agent wants done where the order decides: said in one report, done at the gate by agent and number.

    wanted = Intents().add("place", side="buy", good="oil", price=9, quantity=1).add("cancel", good="oil", order=4)
    turn.report(wanted.value)

The environment's behaviour builds on `env_server.behaviours.ordered_intents`; its event `intents.wanted` wakes agents.
"""

from __future__ import annotations

from typing import Self

from ecumene.client import Json


class Intents:
    """Operations that an agent wants, in its order; each is refused alone."""

    __slots__ = ("_wanted",)

    def __init__(self) -> None:
        self._wanted: list[Json] = []

    def __len__(self) -> int:
        return len(self._wanted)

    def add(self, operation: str, /, **args: Json) -> Self:
        """One more; who wants it is known from who reports it."""
        self._wanted.append({"do": operation, "args": args})
        return self

    @property
    def value(self) -> dict[str, Json]:
        """What to report."""
        return {"intents": list(self._wanted)}
