"""Beside which times the rows of the open group are written: what was told of a clock is a promise that it keeps."""

from collections.abc import Callable, Iterable, Iterator

from env_server.state_tree.nodes import Node
from env_server.state_tree.tree import Tree
from env_server.timeline.timeline import Timeline


class ToldTimes:
    """Of one group after the other. `read` tells what a clock shows."""

    def __init__(self, tree: Tree, read: Callable[[Timeline], int]) -> None:
        self._tree = tree
        self._read = read
        #: Nodes in the path table of the open group, by the number of their clock; and what running ones show there.
        self._entered: dict[int, list[Node]] = {}
        self._shown: dict[int, int] = {}
        #: What rows of the open group told of clocks that show another time since.
        self._told: dict[int, int] = {}
        self._group = 0

    def enter(self, node: Node, timeline: Timeline) -> int:
        """What the clock shows beside rows of the node from now on: one that runs stands for as long as the group."""
        if self._group != self._tree.changes.number:
            self._group = self._tree.changes.number
            self._entered.clear()
            self._shown.clear()
            self._told.clear()
        self._entered.setdefault(timeline.number, []).append(node)
        if not timeline.runs:
            return timeline.state.now_ns
        shown = self._shown.get(timeline.number)
        if shown is None:
            shown = self._shown[timeline.number] = self._read(timeline)
        return shown

    def reenter(self, timeline: Timeline) -> None:
        """Rows that are written from now on tell another time of this clock."""
        if self._is_of_now:
            _leave(self._entered.pop(timeline.number, ()))
            if (shown := self._shown.pop(timeline.number, None)) is not None:
                self._told[timeline.number] = shown

    def entered_below(self, node: Node) -> list[Node]:
        """Those of an environment, and of all below it, beside whose rows the open group tells a time already.

        Looks at no more than there are below it, nor than the group has told of.
        """
        changes, found = self._tree.changes, []
        stack, left = [node], len(changes.places)
        while stack and left >= 0:
            one = stack.pop()
            if one.group == changes.number:
                found.append(one)
            left -= 1 + len(one.children)
            if left >= 0:
                stack += one.children.values()
        if not stack and left >= 0:
            return found
        by_number, prefix = self._tree.nodes.by_number, node.path.rstrip("/") + "/"
        entered = (by_number.get(place.number) for place in changes.places)
        return [one for one in entered if one is not None and (one is node or one.path.startswith(prefix))]

    def reenter_below(self, node: Node) -> None:
        """Rows of an environment, and of those below it, tell the time of another clock from now on."""
        _leave(self.entered_below(node))

    def shown_of(self, timeline: Timeline) -> int:
        """What rows of the open group tell of the clock, as far as it shows that still; else where it stands."""
        return self._shown.get(timeline.number, timeline.state.now_ns) if self._is_of_now else timeline.state.now_ns

    def all_told(self) -> Iterator[tuple[int, int]]:
        """All that rows of the open group tell of running clocks: number of the clock, time."""
        if self._is_of_now:
            yield from self._told.items()
            yield from self._shown.items()

    @property
    def _is_of_now(self) -> bool:
        return self._group == self._tree.changes.number


def _leave(nodes: Iterable[Node]) -> None:
    for node in nodes:
        node.group = 0
