"""Deletion of environments: taken out of the tree at once, taken apart by and by.

However much stands in an environment, its deletion is one row for itself and one for each environment below it, and
none for their entries. The entries, streams and books of what is gone stay in `Remains` and are let go in slices.
"""

from collections.abc import Callable
from typing import Any

from env_server.model.changes import EventType
from env_server.model.errors import Reason, WrongState
from env_server.model.frames import Written
from env_server.model.names import split_path
from env_server.model.operations import Delete
from env_server.model.values import NOTHING
from env_server.state_tree.nodes import Node
from env_server.state_tree.tree import Tree


def delete(tree: Tree, path: str, asked: Delete) -> Written:
    """Deletes an environment with its entries; with its descendants when `recursive`."""
    node = tree.nodes.by_path.get(path)
    if node is None:
        if asked.if_present:
            split_path(path, tree.limits)
            return Written(tree.revision, 0, changed=False)
        tree.nodes.find(path)
        raise AssertionError("find raises for an absent path")
    if node is tree.nodes.root:
        raise WrongState(Reason.PROTECTED, "the root environment cannot be deleted", metadata={"path": path})
    if node.children and not asked.recursive:
        raise WrongState(
            Reason.HAS_CHILDREN,
            f"{path} has {len(node.children)} children: delete them first, or set recursive",
            metadata={"path": path, "children": str(len(node.children))},
        )
    may_be_undone = tree.journal is not None
    if may_be_undone:
        tree.look(0)  # before anybody looks how many there are
    gone = [node, *node.descendants()] if node.children else [node]
    if may_be_undone:
        tree.look(len(gone))
    _write_rows(tree, gone)
    undo = _take_out(tree, gone)
    if tree.journal is not None:
        tree.journal.append(undo)
    return Written(tree.revision + 1, 0)


def _write_rows(tree: Tree, gone: list[Node]) -> None:
    """One row for each, parents first. They carry no config: many large ones would make one huge record."""
    changes = tree.changes
    count = len(gone)
    changes.path.extend([node.place if node.group == changes.number else tree.place(node) for node in gone])
    changes.revisions.extend([tree.revision + 1] * count)
    changes.types.extend([int(EventType.ENVIRONMENT_DELETED)] * count)
    changes.keys.extend([""] * count)
    changes.values.extend([NOTHING] * count)
    changes.versions.extend([node.version + 1 for node in gone])


def _take_out(tree: Tree, gone: list[Node]) -> Callable[[], None]:
    """Detaches the first of them with the others below it; returns what takes that back."""
    top, nodes = gone[0], tree.nodes
    nodes.detach(gone)
    granting = [node for node in gone if node.declaration.grants]
    for node in granting:
        tree.note_grants(node, node.declaration.grants, ())
    tree.unsaved.environments_gone(gone)
    undos = [tree.waiting.gone(node) for node in gone if tree.waiting.concerns(node)]
    held: list[Any] = []
    if tree.timing is not None and tree.timing.any:
        undo_timing, held = tree.timing.gone(gone)
        undos.append(undo_timing)
    tree.roll_ups.note(top)
    tree.remains.add(gone, held)

    def undo() -> None:
        tree.remains.take_back()
        nodes.reattach(gone)
        for node in granting:
            tree.note_grants(node, (), node.declaration.grants)
        tree.unsaved.environments_back(gone)
        for undo_part in reversed(undos):
            undo_part()
        tree.roll_ups.note(top)

    return undo
