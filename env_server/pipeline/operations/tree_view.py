"""What operations and listeners see: the tree as it is now, read only."""

from collections.abc import Mapping
from itertools import islice

from env_server.model.entries import Entry, StreamItem
from env_server.model.environments import AggregateValue, EnvironmentState
from env_server.model.operations import Nearby
from env_server.state_tree.reads.spatial import Looks, read_nearby
from env_server.state_tree.tree import Tree


class TreeView:
    """The tree as operations read it."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._nodes = tree.nodes

    def entry(self, path: str, key: str) -> Entry | None:
        """See View."""
        node = self._nodes.by_path.get(path)
        return None if node is None else node.entries.get(key)

    def entries(self, path: str) -> Mapping[str, Entry]:
        """See View."""
        node = self._nodes.by_path.get(path)
        return {} if node is None else node.entries.copy()

    def environment(self, path: str) -> EnvironmentState | None:
        """See View."""
        node = self._nodes.by_path.get(path)
        return None if node is None else node.state()

    def aggregates(self, path: str) -> dict[str, AggregateValue]:
        """See View."""
        node = self._nodes.by_path.get(path)
        return {} if node is None else {value.name: value for value in self._tree.aggregates(node)}

    def time(self, path: str) -> int | None:
        """See View."""
        node, timing = self._nodes.by_path.get(path), self._tree.timing
        return None if node is None or timing is None else timing.tell_at(node)

    def near(self, path: str, key: str, asked: Nearby) -> list[str]:
        """See View."""
        return read_nearby(self._tree, self._nodes.find(path), key, asked, Looks(self._tree.limits)).keys

    def items(self, path: str, key: str, from_sequence: int, limit: int) -> list[StreamItem]:
        """See View."""
        node = self._nodes.by_path.get(path)
        stream = node.streams.get(key) if node is not None else None
        if stream is None or not stream.items:
            return []
        first = max(0, from_sequence - stream.items[0].sequence)  # sequences are dense
        if first >= len(stream.items):
            return []
        return list(islice(stream.items, first, first + limit if limit else None))
