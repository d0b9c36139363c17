"""Writes that take effect together: transactions, and what a behaviour operation staged."""

from env_server.model.errors import Reason, WorldError
from env_server.model.frames import Written
from env_server.model.limits import Limits
from env_server.model.names import check_count, check_segment
from env_server.model.operations import Code, Write
from env_server.model.values import check_value, size_of
from env_server.pipeline.frames.effects import Effects
from env_server.state_tree.preconditions import check_preconditions
from env_server.state_tree.tree import Tree


def apply_writes(tree: Tree, effects: Effects, writes: tuple[Write, ...]) -> tuple[tuple[Written, ...], bool]:
    """Applies all writes as parts of one op, or none. Returns what each did, and whether any changed something.

    The caller advances the tree when something did.

    Raises:
        WorldError: a precondition or a write failed; the message names the write. The state is as before.
    """
    written: list[Written] = []
    try:
        with tree.all_or_nothing():
            for write in writes:
                check_preconditions(tree, write.path, write.key, write.preconditions)
                written.append(effects.apply(write.path, write.key, write.code, write.argument))
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
        if write.code == Code.SET_TIMER and write.argument.payload is not None:  # type: ignore[attr-defined]
            size += size_of(write.argument.payload)  # type: ignore[attr-defined]
        if write.code == Code.EMIT:
            check_segment(write.key, limits, Reason.INVALID_FIELD, "name of an event")
    check_count(size, "transaction_bytes_max", limits)
    return size
