"""Roll-ups: aggregates over children follow those of the children, level after level, within the same revision.

A child whose aggregates changed is noted; before anybody looks at an aggregate, and before a group is sealed, the share
of each noted child in its parent is set to what its own aggregates come to now. So a change costs no more than without
roll-ups, a look costs the depth for each child that changed since the last one, and it does not matter how often
anybody looks, nor how things came to be as they are: what a failed transaction took back is found to be as before.
"""

from env_server.state_tree.aggregates.tallies import Tally
from env_server.state_tree.nodes import Node


class RollUps:
    """The children in one tree whose parents have not followed yet."""

    def __init__(self, stirred: dict[Node, None]) -> None:
        """`stirred` is where environments go whose aggregates changed."""
        self._stirred = stirred
        #: Filled without a call by whoever changes an entry.
        self.noted: dict[Node, None] = {}

    def note(self, node: Node) -> None:
        """The node came, went, or declares something else."""
        parent = node.parent
        if parent is not None and parent.tally is not None and parent.tally.roll_ups:
            self.noted[node] = None

    def declared(self, node: Node, before: Tally | None = None) -> None:
        """The node has a tally that may be another one than `before`: its parent follows it, and it its children.

        Costs the number of children, when there are other aggregates over them than before.
        """
        tally, parent = node.tally, node.parent
        if tally is not None and parent is not None:
            tally.lifts = parent.tally is not None and bool(parent.tally.roll_ups)
        self.note(node)
        new = tally.roll_ups if tally is not None else None
        if (before.roll_ups if before is not None else None) is new or not (new or (before and before.roll_ups)):
            return
        for child in node.children.values():
            if child.tally is not None:
                child.tally.lifts = bool(new)
                self.note(child)

    def settle(self) -> None:
        """Lets all parents follow; deepest first, so that each does once."""
        if not self.noted:
            return
        levels: dict[int, dict[Node, None]] = {}
        for node in self.noted:
            levels.setdefault(_depth(node), {})[node] = None
        self.noted.clear()
        while levels:
            for node in levels.pop(max(levels)):
                parent = node.parent
                if parent is not None and parent.tally is not None and _follow(parent, parent.tally, node):
                    parent.tally.changed = True
                    self._stirred[parent] = None
                    if parent.tally.lifts:
                        levels.setdefault(_depth(parent), {})[parent] = None


def _follow(parent: Node, tally: Tally, node: Node) -> bool:
    """Sets the node's shares in its parent; whether that changed anything there."""
    here = node.tally if parent.children.get(node.name) is node else None
    changed = [roll_up.follow(node.number, here) for roll_up in tally.roll_ups.values()]
    return any(changed)


def _depth(node: Node) -> int:
    return node.path.count("/") if node.parent is not None else 0
