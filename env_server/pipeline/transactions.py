"""Writes that take effect together: transactions, and what a behaviour operation staged."""

from collections.abc import Callable

from env_server.model.changes import EventType
from env_server.model.errors import Reason, WorldError
from env_server.model.frames import Written
from env_server.model.limits import Limits
from env_server.model.names import check_count, check_segment
from env_server.model.operations import Code, Precondition, Write
from env_server.model.values import check_value, size_of
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


def check_staged(writes: tuple[Write, ...], limits: Limits) -> int:
    """Accepts what a behaviour staged, if it may be stored: a behaviour is no better than a client. Returns its size.

    Raises:
        InvalidRequest, LimitExceeded.
        TypeError: a value of a kind that entries do not have: a defect of the behaviour.
    """
    size = 0
    for write in writes:
        if write.code in (Code.SET, Code.APPEND, Code.ADD, Code.EMIT):
            check_value(write.argument, limits, write.key)  # type: ignore[arg-type]
            size += size_of(write.argument)  # type: ignore[arg-type]
        if write.code == Code.EMIT:
            check_segment(write.key, limits, Reason.INVALID_FIELD, "name of an event")
    check_count(size, "transaction_bytes_max", limits)
    return size


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
            done = entry_writes.BY_CODE[code](tree, node, key, argument)
            return done or Written(tree.revision + 1, node.entries[key].version)
