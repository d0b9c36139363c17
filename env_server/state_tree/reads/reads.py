"""Reads: what a query sees now, and pages of what it saw."""

from bisect import bisect_left
from collections.abc import Collection, Iterator
from itertools import islice
from typing import Any

from env_server.model.entries import STREAM, Entry, StreamEnds, name_of_kind
from env_server.model.environments import EnvironmentState
from env_server.model.errors import InvalidRequest, KindMismatch, NotFound, OutOfRange, Reason
from env_server.model.frames import (
    AggregatesRead,
    EntryPage,
    EntryRead,
    EnvironmentPage,
    Read,
    StreamPage,
)
from env_server.model.operations import (
    Distance,
    Get,
    ListChildren,
    ListEntries,
    Nearby,
    Neighbours,
    Query,
    ReadAggregates,
    ReadPast,
    ReadStream,
)
from env_server.model.views import View
from env_server.state_tree.nodes import Node
from env_server.state_tree.reads.listings import (
    AT_ONCE_MAX,
    CHILDREN_AT_ONCE_MAX,
    LOOKED_AT_ONCE_MAX,
    ChildThen,
    Slices,
    SlowRead,
    filter_in_slices,
    order_in_slices,
    snapshot_children,
)
from env_server.state_tree.reads.pages import Pages, Weigh, fill
from env_server.state_tree.reads.spatial import Looks, read_distance, read_nearby, read_neighbours
from env_server.state_tree.reads.weights import weigh_entry, weigh_environment, weigh_item, weigh_text
from env_server.state_tree.tree import Tree

_ROWS_A_CHILD = 16
"""What making the state of a child costs, in rows of entries."""


class Reader:
    """Answers queries from a tree. Pages after the first come from snapshots that `pages` keeps."""

    def __init__(self, tree: Tree, pages: Pages) -> None:
        self._tree = tree
        self._pages = pages
        #: What was listed last, and once it is listed again its sorted keys and entries; until `forget`.
        self._listed: tuple[int, int] | None = None
        self._sorted: tuple[list[str], dict[str, Entry]] | None = None
        #: Rows that listings of the frame have looked at in its own step.
        self._looked = 0
        self._looks = Looks(tree.limits)

    def forget(self) -> None:
        """Lets go of what was kept for further listings of the same frame."""
        self._listed = self._sorted = None
        self._looked = 0
        self._looks.count = 0

    def answer(self, path: str, key: str, query: Query, view: View | None = None) -> Read | SlowRead:
        """What the query sees in the applied state, with the eyes of a group that may see `path`; None = of nobody.

        Long listings are answered later, with what they would see now; a past is not answered here.

        Raises:
            NotFound, InvalidRequest.
            Exhausted: RATE_LIMITED: questions of the frame to spaces have looked at too much already.
            OutOfRange: REVISION_IN_FUTURE below `min_revision`; PAGE_EXPIRED for a token that is not kept any more.
        """
        check_revision(self._tree, query.min_revision)
        node = self._tree.nodes.find(path)
        match query.ask:
            case Get():
                return self._get(node, key, query.ask, view)
            case ListEntries() as ask:
                return self._entries(node, ask)
            case ListChildren() as ask:
                return self._children(node, ask, view)
            case ReadAggregates() as ask:
                return self._aggregates(node, ask)
            case ReadStream() as ask:
                return self._stream(node, key, ask)
            case Nearby() as ask:
                return read_nearby(self._tree, node, key, ask, self._looks)
            case Distance() as ask:
                return read_distance(self._tree, node, ask, self._looks)
            case Neighbours() as ask:
                return read_neighbours(self._tree, node, ask, self._looks)
            case ReadPast():
                raise ValueError("the past is answered from the log, not from the state")

    def _get(self, node: Node, key: str, ask: Get, view: View | None) -> EntryRead | EnvironmentState:
        if not key:
            return _state_of(node, view)
        entry = node.entries.get(key)
        found: Node | None = node
        while ask.inherit and entry is None and found is not None:
            found = found.parent
            if found is not None and (view is None or view.sees(found.path)):
                entry = found.entries.get(key)
        if entry is None or found is None:
            raise self._tree.nodes.absent(node, key)
        return EntryRead(found.path, key, entry)

    def _entries(self, node: Node, ask: ListEntries) -> EntryPage | SlowRead:
        size = self._page_size(ask.page_size)
        about = ("entries", node.number, ask.prefix)
        if ask.page_token:
            page, token, revision = self._pages.next(ask.page_token, about, size)
            return EntryPage(node.path, page, token, revision)
        if len(node.entries) > AT_ONCE_MAX or self._is_much(0 if self._is_sorted(node) else len(node.entries)):
            return SlowRead(
                lambda: self._entries_in_slices(node.path, node.entries.copy(), self._tree.revision, ask, about, size),
                len(node.entries),
            )
        rows = self._rows(node, ask.prefix)
        page, token, revision = self._pages.begin(rows, about, size, self._tree.revision, _weigh_entries(node.path))
        return EntryPage(node.path, page, token, revision)

    def _entries_in_slices(
        self, path: str, snapshot: dict[str, Entry], revision: int, ask: ListEntries, about: tuple[Any, ...], size: int
    ) -> Slices:
        kept = yield from filter_in_slices(snapshot, ask.prefix, {})
        rows = yield from order_in_slices(kept)
        page, token, revision = self._pages.begin(rows, about, size, revision, _weigh_entries(path), kept)
        return EntryPage(path, page, token, revision)

    def _is_much(self, rows: int) -> bool:
        """Counts what a listing looks at; whether those of this frame, this one too, are to take several steps."""
        if self._looked + rows > LOOKED_AT_ONCE_MAX:
            return True
        self._looked += rows
        return False

    def _is_sorted(self, node: Node) -> bool:
        return self._sorted is not None and self._listed == (node.number, self._tree.revision)

    def _rows(self, node: Node, prefix: str) -> Iterator[tuple[str, Entry]]:
        """Entries in key order. A second listing of the same state is worth sorting all of it once."""
        state = node.number, self._tree.revision
        if self._listed != state:
            self._listed, self._sorted = state, None
            snapshot = node.entries.copy()
            names = (key for key in snapshot if key.startswith(prefix)) if prefix else iter(snapshot)
            return ((key, snapshot[key]) for key in sorted(names))
        if self._sorted is None:
            snapshot = node.entries.copy()
            self._sorted = sorted(snapshot), snapshot
        return _rows_from(*self._sorted, prefix)

    def _children(self, node: Node, ask: ListChildren, view: View | None) -> EnvironmentPage | SlowRead:
        size = self._page_size(ask.page_size)
        about = ("children", node.number, ask.prefix, "" if view is None else view.group, *ask.labels)
        if ask.page_token:
            page, token, revision = self._pages.next(ask.page_token, about, size)
        elif (view is None or view.children(node.path) is None) and (
            len(node.children) > CHILDREN_AT_ONCE_MAX or self._is_much(_ROWS_A_CHILD * len(node.children))
        ):
            return SlowRead(
                lambda: self._children_in_slices(snapshot_children(node), self._tree.revision, ask, about, size),
                len(node.children),
            )
        else:
            states = iter(self._matching_children(node, ask, view))
            page, token, revision = self._pages.begin(states, about, size, self._tree.revision, weigh_environment)
        return EnvironmentPage(page, token, revision)

    def _children_in_slices(
        self, snapshot: dict[str, ChildThen], revision: int, ask: ListChildren, about: tuple[Any, ...], size: int
    ) -> Slices:
        kept = yield from filter_in_slices(snapshot, ask.prefix, dict(ask.labels))
        rows = yield from order_in_slices(kept)
        states = (then.state() for _, then in rows)
        page, token, revision = self._pages.begin(states, about, size, revision, weigh_environment, kept)
        return EnvironmentPage(page, token, revision)

    def _matching_children(self, node: Node, ask: ListChildren, view: View | None) -> list[EnvironmentState]:
        wanted = dict(ask.labels).items()
        return [
            _state_of(node.children[name], view)
            for name in sorted(_seen_children(node, view))
            if name.startswith(ask.prefix) and wanted <= node.children[name].declaration.labels.items()
        ]

    def _aggregates(self, node: Node, ask: ReadAggregates) -> AggregatesRead:
        values = self._tree.aggregates(node, ask.names)
        unknown = set(ask.names).difference(value.name for value in values)
        if unknown:
            raise NotFound(Reason.AGGREGATE_NOT_FOUND, path=node.path, aggregate=min(unknown))
        return AggregatesRead(values, node.state().gates)

    def _stream(self, node: Node, key: str, ask: ReadStream) -> StreamPage:
        entry = node.entries.get(key)
        if entry is None:
            raise self._tree.nodes.absent(node, key)
        if entry.kind != STREAM:
            raise KindMismatch(node.path, key, kind=name_of_kind(entry.kind), wanted=name_of_kind(STREAM))
        ends = entry.value
        assert isinstance(ends, StreamEnds), "the value of a stream is its ends"
        start = max(ask.from_sequence, ends.first)
        items = node.streams[key].items
        asked = islice(items, start - ends.first, None)
        page, _ = fill(asked, self._page_size(ask.limit), self._tree.limits.page_bytes_max, weigh_item)
        return StreamPage(page, ends.first, ends.next)

    def _page_size(self, asked: int) -> int:
        limits = self._tree.limits
        if asked < 0:
            raise InvalidRequest(Reason.INVALID_FIELD, "page_size", "must not be negative")
        return min(asked or limits.page_items, limits.page_items_max)


def check_revision(tree: Tree, revision: int) -> None:
    """Accepts a revision that the world has reached.

    Raises:
        OutOfRange: REVISION_IN_FUTURE.
    """
    if revision > tree.revision:
        raise OutOfRange(
            Reason.REVISION_IN_FUTURE,
            f"revision {revision} is not there yet",
            metadata={"asked": str(revision), "revision": str(tree.revision)},
        )


def _seen_children(node: Node, view: View | None) -> Collection[str]:
    """Names of the children that exist for whoever looks."""
    seen = None if view is None else view.children(node.path)
    return node.children if seen is None else [name for name in seen if name in node.children]


def _state_of(node: Node, view: View | None) -> EnvironmentState:
    state = node.state()
    return state if view is None else state._replace(children=len(_seen_children(node, view)))


def _rows_from(names: list[str], entries: dict[str, Entry], prefix: str) -> Iterator[tuple[str, Entry]]:
    for index in range(bisect_left(names, prefix), len(names)):
        key = names[index]
        if not key.startswith(prefix):
            return
        yield key, entries[key]


def _weigh_entries(path: str) -> Weigh:
    """Each entry of a page names the path again."""
    path_bytes = weigh_text(path)
    return lambda row: path_bytes + weigh_entry(row)
