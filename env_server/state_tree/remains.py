"""Remains: what deleted environments and old listings held, let go in slices: a million entries at once take 0.1 s."""

from collections import deque
from typing import Any, Final

from env_server.model.ports import SpaceIndex
from env_server.state_tree.nodes import Node, Stream

_NODE_ITEMS: Final = 8
"""What taking a node apart counts for, beside what it holds."""


class Remains:
    """Environments that are gone for good, unless the running transaction takes a deletion back."""

    def __init__(self) -> None:
        self._deletions: list[tuple[list[Node], list[Any]]] = []
        self._containers: deque[Any] = deque()
        self._indexes: list[SpaceIndex] = []

    def __bool__(self) -> bool:
        return bool(self._deletions or self._containers or self._indexes)

    def add(self, gone: list[Node], held: list[Any]) -> None:
        """These environments were deleted together; in `held` is what others kept for them, as containers."""
        self._deletions.append((gone, held))

    def drop(self, container: dict[str, Any]) -> None:
        """Something large that nobody else needs."""
        self._containers.append(container)

    def take_back(self) -> None:
        """The last deletion did not happen."""
        self._deletions.pop()

    def let_go(self, items_max: int) -> None:
        """Frees about so many entries, items, or other small things. Not while a transaction is under way."""
        left = items_max
        while left > 0 and self:
            if self._containers:
                left -= self._empty(self._containers[-1], left)
            elif self._indexes:
                freed = self._indexes[-1].let_go(left)
                left -= max(freed, 1)
                if not freed:
                    self._indexes.pop()
            else:
                nodes, held = self._deletions[-1]
                node = nodes.pop()
                self._containers.extend(_containers_of(node))
                if node.space is not None:
                    self._indexes.append(node.space)
                left -= _NODE_ITEMS
                if not nodes:
                    self._containers.extend(held)
                    self._deletions.pop()

    def _empty(self, container: Any, items_max: int) -> int:
        """Takes things out of the last container, and the container away when it is empty; how many it took."""
        count = min(items_max, len(container))
        if isinstance(container, dict):
            for _ in range(count):
                value = container.popitem()[1]
                if isinstance(value, Stream):
                    self._containers.extendleft((value.items, value.unsaved, value.dropped))
        else:
            for _ in range(count):
                container.pop()
        if not container:
            self._containers.pop()
        return max(count, 1)


def _containers_of(node: Node) -> list[Any]:
    held: list[Any] = [node.entries, node.streams, node.unsaved, node.children]
    if node.tally is not None:
        held += node.tally.containers()
    return [container for container in held if container]
