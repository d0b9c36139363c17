"""Positions of entries: moves, and what follows from them in the same revision.

A move is planned, which may fail, then applied, which cannot. It is a change of its entry with a version of its own,
and no report: gates and aggregates go by values. Rows: ENTRY_MOVED, then what is crossed (see `borders`).
"""

from typing import Final

from env_server.model.changes import ENTRY_MOVED
from env_server.model.entries import Entry
from env_server.model.errors import NotFound, Reason, WrongState
from env_server.model.spaces import Position
from env_server.state_tree.borders import Crossing
from env_server.state_tree.nodes import Node
from env_server.state_tree.tree import Tree

_make = tuple.__new__  # an Entry without the call of its Python-level constructor
_NOWHERE: Final[Position] = ()


Plan = tuple[Position, list[Crossing] | None]
"""A move that may be made: the new position in its one form, () = out of the space; what is told beside it."""


def move(tree: Tree, node: Node, key: str, asked: Position) -> None:
    """Moves an entry that is there; () = out of the space.

    Raises:
        NotFound: SPACE_NOT_FOUND, ENTRY_NOT_FOUND.
        InvalidRequest: INVALID_POSITION.
        WrongState: CELL_FULL.
        Exhausted: RATE_LIMITED: there are too many in its proximity.
    """
    old = node.entries.get(key)
    if old is None:
        if node.space is None:
            raise NotFound(Reason.SPACE_NOT_FOUND, path=node.path)
        raise tree.nodes.absent(node, key)
    position, crossed = plan_move(tree, node, key, old[6], asked)
    apply_move(tree, node, key, old, position, crossed)


def plan_move(tree: Tree, node: Node, key: str, before: Position | None, asked: Position) -> Plan:
    """What a move from `before` would do. Raises as `move`; nothing has changed."""
    index = node.space
    if index is None:
        raise NotFound(Reason.SPACE_NOT_FOUND, path=node.path)
    position = _NOWHERE
    if asked:
        position = index.check(asked)
        if position != before and index.is_full(position):
            raise _full(node, key)
    borders = node.borders
    if borders is None or borders.is_empty or position == before:
        return position, None
    if borders.looks:
        tree.look(0)  # before anybody does
    return position, borders.cross(index, key, before, position or None, tree.limits, tree.has_looked)


def apply_move(
    tree: Tree, node: Node, key: str, old: Entry, position: Position, crossed: list[Crossing] | None
) -> None:
    """Makes a planned move of an entry that is `old` now, with its rows."""
    value, version, created, modified, kind, lease, before, written = old
    revision = tree.revision + 1
    version += 1
    if position:
        node.space.put(key, position)  # type: ignore[union-attr]
    elif before is not None:
        node.space.drop(key)  # type: ignore[union-attr]
    # Of an entry that was written in this very revision, the placing is a part of that.
    since = written or (modified if modified != revision else 0)
    node.entries[key] = _make(Entry, (value, version, created, revision, kind, lease, position or None, since))
    path, revisions, types, keys, values, versions = tree.row_appends
    path(node.place if node.group == tree.changes.number else tree.place(node))
    revisions(revision)
    types(ENTRY_MOVED)
    keys(key)
    values(position)
    versions(version)
    if crossed:
        tell(tree, node, crossed)
    node.unsaved[key] = None
    if tree.journal is not None:
        tree.journal.append(lambda: _move_back(node, key, old))


def plan_leaving(tree: Tree, node: Node, key: str, entry: Entry, *, may_be_refused: bool) -> list[Crossing]:
    """What is told beside the deletion of an entry that is somewhere.

    Raises:
        Exhausted: RATE_LIMITED, if it may be refused.
    """
    index, borders = node.space, node.borders
    if index is None or borders is None or borders.is_empty:
        return []
    if may_be_refused and borders.looks:
        tree.look(0)  # before anybody does
    return borders.cross(index, key, entry.position, None, tree.limits, tree.has_looked)


def leave(node: Node, key: str) -> None:
    """An entry that was somewhere is gone."""
    if node.space is not None:
        node.space.drop(key)


def come_back(node: Node, key: str, entry: Entry) -> None:
    """The deletion of an entry that was somewhere is taken back."""
    if node.space is not None and entry.position is not None:
        node.space.put(key, entry.position)


def tell(tree: Tree, node: Node, crossed: list[Crossing]) -> None:
    """Writes the rows of what was crossed. They are no changes of an entry: their version is 0."""
    for type_, key, document in crossed:
        tree.row(node, type_, key, document, 0)


def _move_back(node: Node, key: str, old: Entry) -> None:
    node.entries[key] = old
    if old[6] is None:
        leave(node, key)
    else:
        come_back(node, key, old)


def _full(node: Node, key: str) -> WrongState:
    space = node.declaration.space
    capacity = space.capacity if space is not None else 0
    return WrongState(
        Reason.CELL_FULL,
        f"entry {key!r} of {node.path} finds no room there: it holds {capacity} already",
        metadata={"path": node.path, "key": key, "capacity": str(capacity)},
    )
