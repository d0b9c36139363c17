"""Long listings: a snapshot taken at once, put in order piece by piece, so that the world goes on meanwhile.

Copying the dict of a million entries takes 10 to 50 ms and is the longest step of their listing; a child costs about a
microsecond in that step. What is sorted, filtered and made comes later, a few milliseconds at a time.
"""

from collections.abc import Callable, Generator, Iterator
from itertools import chain
from typing import Any, Final, NamedTuple

from env_server.model.environments import Declaration, EnvironmentState, GateState
from env_server.model.frames import Read
from env_server.model.ordering import in_order
from env_server.state_tree.nodes import Node

AT_ONCE_MAX: Final = 32_768
"""Entries that are listed in one step."""
CHILDREN_AT_ONCE_MAX: Final = 4096
LOOKED_AT_ONCE_MAX: Final = 262_144
"""Entries that all listings of a frame look at in one step: a frame can hold thousands of them."""
_SLICE: Final = 2048

Slices = Generator[None, None, Read]
"""The steps of a read that takes several; what it returns is the answer."""


class SlowRead(NamedTuple):
    """A read that is not answered in the step in which it was asked; the state that it tells is that of this step.

    Its snapshot is taken when it begins, so that one that finds no room costs nothing.
    """

    begin: Callable[[], Slices]
    """Call in the step in which it was asked."""
    rows: int
    """Held in memory meanwhile."""


class ChildThen(NamedTuple):
    """What changes of a child environment, as it was."""

    node: Node
    declaration: Declaration
    version: int
    modified: int
    entries: int
    children: int
    reported: int

    def state(self) -> EnvironmentState:
        """The child as it was."""
        node, declaration = self.node, self.declaration
        return EnvironmentState(
            node.path,
            node.number,
            declaration,
            self.version,
            node.created,
            self.modified,
            self.entries,
            self.children,
            tuple(GateState(gate, self.reported) for gate in declaration.gates),
        )


def snapshot_children(node: Node) -> dict[str, ChildThen]:
    """All children as they are now."""
    return {
        name: ChildThen(
            child,
            child.declaration,
            child.version,
            child.modified,
            len(child.entries),
            len(child.children),
            child.tally.reported if child.tally is not None else 0,
        )
        for name, child in node.children.items()
    }


def filter_in_slices(
    snapshot: dict[str, Any], prefix: str, labels: dict[str, str]
) -> Generator[None, None, dict[str, Any]]:
    """What of a snapshot begins with the prefix and, of children, carries the labels. Empties the snapshot."""
    if not prefix and not labels:
        return snapshot
    wanted = labels.items()
    kept: dict[str, Any] = {}
    while snapshot:
        taken = [snapshot.popitem() for _ in range(min(_SLICE, len(snapshot)))]
        kept.update(
            (name, row)
            for name, row in taken
            if name.startswith(prefix) and (not wanted or wanted <= row.declaration.labels.items())
        )
        yield
    return kept


def order_in_slices(rows: dict[str, Any]) -> Generator[None, None, Iterator[tuple[str, Any]]]:
    """Rows in the order of their names."""
    ordered = in_order(rows)
    for name in ordered:
        if name is not None:
            names = chain((name,), ordered)
            return ((name, rows[name]) for name in names if name is not None)
        yield
    return iter(())
