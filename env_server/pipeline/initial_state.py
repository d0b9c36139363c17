"""The watches of a world, and the state that one may begin with: a snapshot of entries, taken in one loop step."""

from collections.abc import Iterator

from env_server.events.history import ReadLog
from env_server.events.watches import WatchHub
from env_server.model.changes import Place
from env_server.model.entries import Entry
from env_server.model.limits import Limits
from env_server.model.ports import CommitLog
from env_server.model.watching import EntryMatcher, Snapshot
from env_server.state_tree.tree import Tree


def open_watches(tree: Tree, log: CommitLog, limits: Limits, read_log: ReadLog) -> WatchHub:
    """The watches of a world, from its head on."""
    return WatchHub(
        limits,
        read_log,
        lambda: log.first_revision,
        lambda matcher: snapshot_of(tree, matcher),
        head=tree.revision,
        view_of=tree.grants.view_of,
    )


def snapshot_of(tree: Tree, matcher: EntryMatcher) -> Snapshot:
    """All entries in environments that the matcher lets through, of a single key only those with it.

    Entries are immutable, so shallow copies will do: 10 to 50 ms for a million.
    """
    root = tree.nodes.by_path.get(matcher.root)
    taken, timing = [], tree.timing
    for node in () if root is None else (root, *root.descendants()):
        place = Place(node.number, node.path, node.declaration.labels)
        if not node.entries or not matcher.matches_place(place):
            continue
        if timing is not None and timing.any:
            place = place._replace(sim_time_ns=timing.shown(node))
        if not matcher.key:
            taken.append((place, list(reversed(node.entries)), list(reversed(node.entries.values()))))
        elif matcher.key in node.entries:
            taken.append((place, [matcher.key], [node.entries[matcher.key]]))
    return Snapshot(tree.revision, _rows(taken))


def _rows(taken: list[tuple[Place, list[str], list[Entry]]]) -> Iterator[tuple[Place, str, Entry]]:
    for place, keys, entries in taken:
        while keys:  # emptied as it is told, from the end: freeing a million at once takes 0.1 s
            yield place, keys.pop(), entries.pop()
