"""What the tree asks of the clocks of its environments: those are kept elsewhere, as state that is no entry."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from env_server.state_tree.nodes import Node


class Timing(Protocol):
    """The clocks of one tree."""

    @property
    def any(self) -> bool:
        """Whether there is any clock."""

    def enter(self, node: Node) -> int | None:
        """The time, on the nearest clock, of rows of the open group that are written from now on; None = it has none.

        When that clock moves, the node's `group` becomes 0.
        """

    def tell_at(self, node: Node) -> int | None:
        """What the nearest clock shows now, for somebody who is told; None = there is none."""

    def shown(self, node: Node) -> int | None:
        """The time that the nearest clock was last told to show; None = it has none."""

    def declared(self, node: Node) -> None:
        """The environment declares its clock, as part of the running op."""

    def gone(self, nodes: Sequence[Node]) -> tuple[Callable[[], None], list[Any]]:
        """These environments are gone, with their clocks and timers.

        Returns what takes that back, and what nobody needs when nothing does, to be let go of in slices.
        """

    def settle(self) -> None:
        """The open group is complete: keeps the times that its rows tell."""
