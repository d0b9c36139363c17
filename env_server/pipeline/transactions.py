"""Writes that take effect together: transactions, and what a behaviour operation staged."""

from collections.abc import Callable
from typing import Any

from env_server.model.changes import EventType
from env_server.model.errors import WorldError
from env_server.model.frames import Written
from env_server.model.operations import Code, Precondition, Write
from env_server.state_tree import entry_writes, environment_writes
from env_server.state_tree.preconditions import check_preconditions
from env_server.state_tree.tree import Tree


def apply_writes(
    tree: Tree, check_kind: Callable[[str], None], preconditions: tuple[Precondition, ...], writes: tuple[Write, ...]
) -> tuple[tuple[Written, ...], bool]:
    """Applies all writes as parts of one op, or none. Returns what each did, and whether any changed something.

    The caller advances the tree when something did.

    Raises:
        WorldError: a precondition or a write failed; the message names the write. The state is as before.
    """
    check_preconditions(tree, "", "", preconditions)
    written: list[Written] = []
    try:
        with tree.all_or_nothing():
            for write in writes:
                check_preconditions(tree, write.path, write.key, write.preconditions)
                written.append(_apply(tree, check_kind, write))
    except WorldError as error:
        error.metadata = {**error.metadata, "write": str(len(written))}
        raise
    return tuple(written), any(one.changed for one in written)


def _apply(tree: Tree, check_kind: Callable[[str], None], write: Write) -> Written:
    path, key, argument = write.path, write.key, write.argument
    match write.code:
        case Code.REGISTER_ENVIRONMENT:
            check_kind(argument.declaration.kind)  # type: ignore[attr-defined]
            return environment_writes.register(tree, path, argument)  # type: ignore[arg-type]
        case Code.DELETE_ENVIRONMENT:
            return environment_writes.delete(tree, path, argument)  # type: ignore[arg-type]
        case Code.REFUSED:
            raise argument  # type: ignore[misc]
        case _:
            pass
    node = tree.nodes.find(path)
    match write.code:
        case Code.UPDATE_ENVIRONMENT:
            return environment_writes.update(tree, node, argument)  # type: ignore[arg-type]
        case Code.EMIT:
            tree.row(node, EventType.BEHAVIOUR, key, argument, 0)  # type: ignore[arg-type]
            return Written(tree.revision + 1, 0)
        case code:
            done = _ENTRY_WRITES[code](tree, node, key, argument)
            return done or Written(tree.revision + 1, node.entries[key].version)


_ENTRY_WRITES: dict[Code, Callable[..., Any]] = {
    Code.SET: entry_writes.set_value,
    Code.ADD: entry_writes.add,
    Code.MERGE: entry_writes.merge,
    Code.APPEND: entry_writes.append,
    Code.REGISTER_ENTRY: entry_writes.register,
    Code.DELETE_ENTRY: entry_writes.delete,
}
