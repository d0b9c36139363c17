"""What the state tables lack, and the rounds that write it.

The log record is the commit; the state tables follow lazily, so that a hot entry is written once a round and not once
a change. A round begins after half of `replay_ops_max` changes: it takes over all that is unsaved, sorts it (the
tables are B-trees: sorted keys touch each page once) and hands out slices that ride along with the commits that
follow. A slice holds the values of now, which may be newer than the begin of the round; replay of the log sets them
again, so that does no harm. When the last slice is written, everything up to the begin of the round is in the tables.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import repeat

from env_server.model.entries import STREAM, Entry, StreamItem
from env_server.model.ordering import in_slices
from env_server.model.ports import EnvironmentRow, StateChunk
from env_server.state_tree.nodes import Node, Nodes

Entries = dict[tuple[int, str], Entry | None]
Items = dict[tuple[int, str, int], StreamItem | None]


class Unsaved:
    """Bookkeeping of one world's unsaved state."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._environments: dict[int, None] = {}
        self._ranges: list[int] = []
        self._lost_items: dict[tuple[int, str], list[tuple[int, int]]] = {}

    def environment(self, node: Node) -> None:
        """The node's declaration changed."""
        self._environments[node.number] = None

    def environments_gone(self, nodes: Sequence[Node]) -> None:
        """The nodes were deleted, with all their entries."""
        numbers = [node.number for node in nodes]
        self._environments.update(dict.fromkeys(numbers))
        self._ranges += numbers

    def environments_back(self, nodes: Sequence[Node]) -> None:
        """The last deletion, that of these nodes, was taken back."""
        del self._ranges[len(self._ranges) - len(nodes) :]

    def stream_dropped(self, node: Node, key: str, first: int, next_: int) -> None:
        """The stream was deleted; its items from `first` up to `next_` may be in the tables."""
        self._lost_items.setdefault((node.number, key), []).append((first, next_))

    def stream_restored(self, node: Node, key: str) -> None:
        """The deletion was taken back."""
        ranges = self._lost_items[node.number, key]
        ranges.pop()
        if not ranges:
            del self._lost_items[node.number, key]

    def round(self, slice_keys: Callable[[], int]) -> Iterator[StateChunk]:
        """Slices of all that is unsaved now, each of `slice_keys()` to twice as many entries.

        Some may be empty: the sorting is spread over them.
        """
        environments, self._environments = self._environments, {}
        ranges, self._ranges = tuple(self._ranges), []
        waiting = [(node, node.unsaved) for node in self._nodes.by_number.values() if node.unsaved]
        for node, _ in waiting:
            node.unsaved = {}
        rows = {number: self._environment_row(number) for number in environments}
        yield _chunk(environments=rows, ranges=ranges)
        waiting.sort(key=lambda pair: pair[0].number)
        entries: Entries = {}
        items: Items = {}
        for node, keys in waiting:
            for batch in in_slices(keys, slice_keys):
                self._take_entries(node, batch, entries, items)
                # What is taken leaves in this very step, also when the turn is over because of the sorting.
                if not batch or len(entries) >= slice_keys():
                    yield _chunk(entries=entries, items=items)
                    entries, items = {}, {}
        if entries or items:
            yield _chunk(entries=entries, items=items)

    def _environment_row(self, number: int) -> EnvironmentRow | None:
        node = self._nodes.by_number.get(number)
        if node is None:
            return None
        return EnvironmentRow(number, node.path, node.declaration, node.version, node.created, node.modified)

    def _take_entries(self, node: Node, keys: list[str], entries: Entries, items: Items) -> None:
        """Adds the entries with their items: a stream's ends and its items belong together."""
        if node.number not in self._nodes.by_number:
            return
        number, current, lost, streams = node.number, node.entries.get, self._lost_items, node.streams
        if not lost and not streams:
            # By far the most, where there are many.
            entries.update(zip(zip(repeat(number), keys, strict=False), map(current, keys), strict=False))
            return
        for key in keys:
            entry = current(key)
            entries[number, key] = entry
            if lost and (number, key) in lost:
                for first, next_ in lost.pop((number, key)):
                    items.update(((number, key, sequence), None) for sequence in range(first, next_))
            if entry is not None and entry[4] == STREAM:
                stream = streams[key]
                items.update(((number, key, item.sequence), item) for item in stream.unsaved)
                items.update(((number, key, sequence), None) for sequence in stream.dropped)
                stream.dropped, stream.unsaved = [], []


def _chunk(
    environments: dict[int, EnvironmentRow | None] | None = None,
    entries: Entries | None = None,
    items: Items | None = None,
    ranges: tuple[int, ...] = (),
) -> StateChunk:
    return StateChunk(environments or {}, entries or {}, items or {}, {}, {}, ranges, None)
