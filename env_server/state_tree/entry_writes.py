"""Writes to entries. Each is one function (tree, node, key, argument): check, apply, write the row.

SET is the hot path of the whole server; every line of it is paid a million times a round.
"""

from collections.abc import Callable
from typing import Any, Final

from env_server.model.changes import (
    ENTRY_APPENDED,
    ENTRY_DELETED,
    ENTRY_INCREMENTED,
    ENTRY_SET,
    MEMBER_EXPIRED,
    MEMBER_JOINED,
    MEMBER_LEFT,
    Extra,
)
from env_server.model.entries import COUNTER, MEMBER, STREAM, VALUE, Entry, StreamEnds, StreamItem, name_of_kind
from env_server.model.errors import (
    AlreadyExists,
    InvalidRequest,
    KindMismatch,
    LimitExceeded,
    OutOfRange,
    Reason,
)
from env_server.model.frames import Written
from env_server.model.names import check_segment
from env_server.model.operations import Code, Delete, Placed, RegisterEntry
from env_server.model.values import INT_MAX, INT_MIN, NOTHING, Json, Value, check_document
from env_server.state_tree.merge import merge_patch
from env_server.state_tree.nodes import Node, Stream
from env_server.state_tree.positions import apply_move, come_back, leave, move, plan_leaving, plan_move, tell
from env_server.state_tree.tree import Tree

_make = tuple.__new__  # an Entry without the call of its Python-level constructor


def set_value(tree: Tree, node: Node, key: str, value: Value) -> None:
    """Sets a value, creating the entry when it is absent."""
    entries = node.entries
    old = entries.get(key)
    revision = tree.revision + 1
    if old is None:
        check_segment(key, tree.limits)
        version = 1
        new = _make(Entry, (value, 1, revision, revision, VALUE, 0, None, 0))
    else:
        if old[4] != VALUE and old[4] != MEMBER:
            raise _mismatch(node, key, old, VALUE)
        version = old[1] + 1
        new = _make(Entry, (value, version, old[2], revision, old[4], old[5], old[6], 0))
    entries[key] = new
    path, revisions, types, keys, values, versions = tree.row_appends
    path(node.place if node.group == tree.changes.number else tree.place(node))
    revisions(revision)
    types(ENTRY_SET)
    keys(key)
    values(value)
    versions(version)
    node.unsaved[key] = None
    if node.tally is not None:
        tree.tally_change(node, key, old, new)
    if tree.journal is not None:
        tree.journal.append(lambda: _restore(tree, node, key, old))


def place(tree: Tree, node: Node, key: str, placed: Placed) -> None:
    """Sets a value, creating the entry when it is absent, and places the entry: two rows, and what it crosses.

    Raises as `positions.move`, except that the entry may be absent; nothing has changed then.
    """
    value, position = placed
    old = node.entries.get(key)
    if node.schema is not None:
        tree.schemas.check(node, key, value)
    position, crossed = plan_move(tree, node, key, old[6] if old is not None else None, position)
    set_value(tree, node, key, value)
    apply_move(tree, node, key, node.entries[key], position, crossed)


def add(tree: Tree, node: Node, key: str, amount: int | float) -> Written:
    """Increments a counter, creating it when it is absent."""
    old = node.entries.get(key)
    if old is None:
        check_segment(key, tree.limits)
        total: int | float = amount
    else:
        if old.kind != COUNTER:
            raise _mismatch(node, key, old, COUNTER)
        if type(old.value) is not type(amount):  # a sum of both kinds would be a double: not every integer is one
            kinds = {"kind": _name_counter(old.value), "wanted": _name_counter(amount)}
            raise KindMismatch(node.path, key, **kinds)
        total = old.value + amount
    if type(total) is int and not INT_MIN <= total <= INT_MAX:
        raise _overflow(node, key, "64 bits")
    if total - total != 0:
        raise _overflow(node, key, "a double")
    if node.schema is not None:
        tree.schemas.check(node, key, total)
    new = _put(tree, node, key, old, total, COUNTER, ENTRY_INCREMENTED, total)
    return Written(tree.revision + 1, new.version, value=total)


def merge(tree: Tree, node: Node, key: str, patch: Json) -> Written:
    """Applies an RFC 7396 merge patch to a JSON value; an absent entry counts as {}."""
    old = node.entries.get(key)
    if old is None:
        check_segment(key, tree.limits)
    elif old.kind not in (VALUE, MEMBER) or type(old.value) is not Json:
        raise _mismatch(node, key, old, VALUE)
    tree.weigh(len(patch.text) + (len(old.value.text) if old is not None else 0))  # type: ignore[union-attr]
    before = old.value.document if old is not None else {}  # type: ignore[union-attr]
    merged = Json.of(merge_patch(before, patch.document))
    check_document(merged, tree.limits)
    if node.schema is not None:
        tree.schemas.check(node, key, merged)
    if isinstance(patch.document, dict):
        tree.changes.extras[len(tree.changes)] = Extra(changed_fields=tuple(patch.document))
    new = _put(tree, node, key, old, merged, VALUE, ENTRY_SET, merged)
    return Written(tree.revision + 1, new.version)


def append(tree: Tree, node: Node, key: str, value: Value) -> Written:
    """Appends an item to a stream, created by its first append; drops the oldest beyond the stream's bound."""
    old = node.entries.get(key)
    if old is None:
        check_segment(key, tree.limits)
        ends = StreamEnds(1, 1, tree.limits.stream_items_max)
    elif old.kind != STREAM:
        raise _mismatch(node, key, old, STREAM)
    else:
        ends = old.value  # type: ignore[assignment]
    if node.schema is not None:
        tree.schemas.check(node, key, value)
    stream = node.streams.get(key)
    if stream is None:
        stream = node.streams[key] = Stream()
    if old is None:
        tree.changes.extras[len(tree.changes)] = Extra(stream_items_max=ends.items_max)
    item = StreamItem(ends.next, value, tree.revision + 1)
    stream.items.append(item)
    stream.unsaved.append(item)
    lost = stream.items.popleft() if len(stream.items) > ends.items_max else None
    if lost is not None:
        stream.dropped.append(lost.sequence)
    if tree.journal is not None:
        tree.journal.append(lambda: _take_back(stream, lost))
    grown = StreamEnds(stream.items[0].sequence, ends.next + 1, ends.items_max)
    new = _put(tree, node, key, old, grown, STREAM, ENTRY_APPENDED, value)
    return Written(tree.revision + 1, new.version, sequence=item.sequence)


def register(tree: Tree, node: Node, key: str, asked: RegisterEntry) -> Written:
    """Creates an entry of a kind, and places it where that is asked for; one that is there is left where it is."""
    if asked.position is None or key in node.entries:
        return _register(tree, node, key, asked)
    position, crossed = plan_move(tree, node, key, None, asked.position)
    written = _register(tree, node, key, asked)
    entry = node.entries[key]
    apply_move(tree, node, key, entry, position, crossed)
    return written._replace(version=entry.version + 1)


def _register(tree: Tree, node: Node, key: str, asked: RegisterEntry) -> Written:
    """Creates an entry of a kind. One that is there already under another lease is never what was asked for."""
    old, lease = node.entries.get(key), asked.lease
    if lease:
        tree.holdings.leases.check(lease)
    if old is not None:
        if not asked.if_absent or (lease and old.lease != lease):
            holder = {"lease": str(old.lease)} if old.lease else {}
            raise AlreadyExists(Reason.ENTRY_EXISTS, path=node.path, key=key, **holder)
        if old.kind != asked.kind:
            raise _mismatch(node, key, old, asked.kind)
        return Written(tree.revision, old.version, changed=False)
    check_segment(key, tree.limits)
    if asked.kind == MEMBER and not lease:
        raise InvalidRequest(Reason.INVALID_FIELD, "register.lease_id", "members live under a lease")
    if asked.kind == STREAM:
        items_max = asked.stream_items_max or tree.limits.stream_items_max
        if items_max > tree.limits.stream_items_limit_max:
            raise LimitExceeded("stream_items_limit_max", tree.limits.stream_items_limit_max, items_max)
        node.streams[key] = Stream()
        tree.changes.extras[len(tree.changes)] = Extra(stream_items_max=items_max, lease=lease)
        _put(tree, node, key, None, StreamEnds(1, 1, items_max), STREAM, ENTRY_APPENDED, NOTHING, lease)
        return Written(tree.revision + 1, 1)
    value: Any = asked.value
    if value is NOTHING:
        value = 0 if asked.kind == COUNTER else None
    if node.schema is not None:
        tree.schemas.check(node, key, value)
    if lease:
        tree.changes.extras[len(tree.changes)] = tree.holdings.extra_of(lease)
    _put(tree, node, key, None, value, asked.kind, _CREATING[asked.kind], value, lease)
    return Written(tree.revision + 1, 1, value=value if asked.kind == COUNTER else None)


def delete(tree: Tree, node: Node, key: str, asked: Delete) -> Written:
    """Deletes an entry with its items."""
    old = node.entries.get(key)
    if old is None:
        absent = tree.nodes.absent(node, key)
        if asked.if_present:
            return Written(tree.revision, 0, changed=False)
        raise absent
    _remove(tree, node, key, old, MEMBER_LEFT if old.kind == MEMBER else ENTRY_DELETED)
    return Written(tree.revision + 1, 0)


def expire(tree: Tree, node: Node, key: str) -> None:
    """Deletes an entry whose lease has ended, with its items."""
    old = node.entries[key]
    event = MEMBER_EXPIRED if old.kind == MEMBER else ENTRY_DELETED
    _remove(tree, node, key, old, event, may_be_refused=False)


def _remove(tree: Tree, node: Node, key: str, old: Entry, event: int, *, may_be_refused: bool = True) -> None:
    crossed = None
    if old.position is not None:
        crossed = plan_leaving(tree, node, key, old, may_be_refused=may_be_refused)
        leave(node, key)
    del node.entries[key]
    stream = node.streams.pop(key, None)
    if stream is not None:
        tree.unsaved.stream_dropped(node, key, old.value.first, old.value.next)  # type: ignore[union-attr]
    node.unsaved[key] = None
    tree.row(node, event, key, NOTHING, old.version + 1)
    if crossed:
        tell(tree, node, crossed)
    if old.lease:
        _release(tree, node, key, old)
    if node.tally is not None:
        tree.tally_change(node, key, old, None)
    if tree.journal is not None:
        tree.journal.append(lambda: _undelete(tree, node, key, old, stream))


_CREATING: Final = {VALUE: ENTRY_SET, COUNTER: ENTRY_INCREMENTED, MEMBER: MEMBER_JOINED}

EntryWrite = Callable[[Tree, Node, str, Any], Written | None]

BY_CODE: Final[dict[int, EntryWrite]] = {
    Code.SET: set_value,
    Code.ADD: add,
    Code.MERGE: merge,
    Code.APPEND: append,
    Code.REGISTER_ENTRY: register,
    Code.DELETE_ENTRY: delete,
    Code.MOVE: move,
    Code.PLACE: place,
}
"""The write of each code. None, from SET, MOVE and PLACE, means: revision + 1, and the version that the entry has."""


def _put(
    tree: Tree, node: Node, key: str, old: Entry | None, state: Any, kind: int, event: int, told: Any, lease: int = 0
) -> Entry:
    revision = tree.revision + 1
    if old is None:
        new = Entry(state, 1, revision, revision, kind, lease)
    else:
        new = Entry(state, old.version + 1, old.created, revision, old.kind, old.lease, old.position)
    node.entries[key] = new
    tree.row(node, event, key, told, new.version)
    node.unsaved[key] = None
    if lease:
        _hold(tree, node, key, new, may_forget=tree.journal is None)
    if node.tally is not None:
        tree.tally_change(node, key, old, new)
    if tree.journal is not None:
        tree.journal.append(lambda: _restore(tree, node, key, old))
    return new


def _hold(tree: Tree, node: Node, key: str, entry: Entry, *, may_forget: bool) -> None:
    """The entry is there, under its lease."""
    tree.holdings.add(entry.lease, node, key, may_forget=may_forget)
    if entry.kind == MEMBER:
        tree.waiting.came(node, key)


def _release(tree: Tree, node: Node, key: str, entry: Entry) -> None:
    """The entry is gone from its lease."""
    tree.holdings.discard(entry.lease, node, key)
    if entry.kind == MEMBER:
        tree.waiting.went(node, key)


def _restore(tree: Tree, node: Node, key: str, old: Entry | None) -> None:
    new = node.entries.pop(key, None)
    if old is not None:
        node.entries[key] = old
    else:
        node.streams.pop(key, None)
        if new is not None and new.lease:
            _release(tree, node, key, new)
    if node.tally is not None:
        tree.tally_change(node, key, new, old)


def _undelete(tree: Tree, node: Node, key: str, old: Entry, stream: Stream | None) -> None:
    node.entries[key] = old
    if old.position is not None:
        come_back(node, key, old)
    if stream is not None:
        node.streams[key] = stream
        tree.unsaved.stream_restored(node, key)
    if old.lease:
        _hold(tree, node, key, old, may_forget=False)
    if node.tally is not None:
        tree.tally_change(node, key, None, old)


def _take_back(stream: Stream, lost: StreamItem | None) -> None:
    taken = stream.items.pop()
    if stream.unsaved and stream.unsaved[-1] is taken:
        stream.unsaved.pop()
    if lost is not None:
        stream.items.appendleft(lost)
        stream.dropped.pop()


def _mismatch(node: Node, key: str, entry: Entry, wanted: int) -> KindMismatch:
    return KindMismatch(node.path, key, kind=name_of_kind(entry.kind), wanted=name_of_kind(wanted))


def _name_counter(number: object) -> str:
    return "counter of doubles" if type(number) is float else "counter of integers"


def _overflow(node: Node, key: str, what: str) -> OutOfRange:
    return OutOfRange(Reason.COUNTER_OVERFLOW, f"the sum would exceed {what}", metadata={"path": node.path, "key": key})
