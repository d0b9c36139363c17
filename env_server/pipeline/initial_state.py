"""The state that a watch may begin with: a snapshot of entries, taken in one loop step."""

from collections.abc import Iterator

from env_server.model.changes import Place
from env_server.model.entries import Entry
from env_server.model.watching import EntryMatcher, Snapshot
from env_server.state_tree.tree import Tree


def snapshot_of(tree: Tree, matcher: EntryMatcher) -> Snapshot:
    """All entries in environments that the matcher lets through. Entries are immutable, so copies of dicts will do."""
    root = tree.nodes.by_path.get(matcher.root)
    taken = []
    for node in () if root is None else (root, *root.descendants()):
        place = Place(node.number, node.path, node.declaration.labels)
        if node.entries and matcher.matches_place(place):
            taken.append((place, node.entries.copy()))
    return Snapshot(tree.revision, _rows(taken))


def _rows(taken: list[tuple[Place, dict[str, Entry]]]) -> Iterator[tuple[Place, str, Entry]]:
    for place, entries in taken:
        for key, entry in entries.items():
            yield place, key, entry
