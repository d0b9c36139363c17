"""Rebuilding a tree from storage: the state tables first, then the records that they lack.

Rows of the tables may be newer than the point where the records begin (see `unsaved`), so a record's row is skipped
where the state has it already.
"""

from dataclasses import dataclass
from typing import Any

from env_server.model.changes import ENTRY_MOVED, Changes, EventType
from env_server.model.entries import COUNTER, MEMBER, STREAM, VALUE, Entry, StreamEnds, StreamItem
from env_server.model.environments import Declaration
from env_server.model.ports import EnvironmentRow
from env_server.model.spaces import Position
from env_server.model.values import NOTHING
from env_server.state_tree.nodes import Node, Stream
from env_server.state_tree.tree import Tree

_KINDS = {
    EventType.ENTRY_SET: VALUE,
    EventType.ENTRY_INCREMENTED: COUNTER,
    EventType.ENTRY_APPENDED: STREAM,
    EventType.MEMBER_JOINED: MEMBER,
}
_OF_MEMBERS = (EventType.MEMBER_JOINED, EventType.MEMBER_LEFT, EventType.MEMBER_EXPIRED)
_DELETING = (EventType.ENTRY_DELETED, EventType.MEMBER_LEFT, EventType.MEMBER_EXPIRED)
_DECLARING = (
    EventType.ENVIRONMENT_REGISTERED,
    EventType.ENVIRONMENT_UPDATED,
    EventType.GATE_BEGUN,
    EventType.GATE_OPENED,
)


@dataclass(slots=True)
class Replay:
    """Builds up `tree`; call `finish` once at the end."""

    tree: Tree

    def environment(self, row: EnvironmentRow) -> None:
        """Takes over a row of the tables; its parent came before."""
        nodes = self.tree.nodes
        if row.number == nodes.root.number:
            node = nodes.root
        else:
            parent, _, name = row.path.rpartition("/")
            node = nodes.attach(row.number, nodes.by_path[parent or "/"], name)
        node.declaration = row.declaration
        node.version, node.created, node.modified = row.version, row.created, row.modified

    def entry(self, number: int, key: str, entry: Entry) -> None:
        """Takes over a row of the tables; rows of environments that are gone are passed over."""
        node = self.tree.nodes.by_number.get(number)
        if node is not None:
            node.entries[key] = entry
            if entry.kind == STREAM:
                node.streams[key] = Stream()

    def item(self, number: int, key: str, item: StreamItem) -> None:
        """Takes over an item; items come in order of their sequence."""
        node = self.tree.nodes.by_number.get(number)
        stream = node.streams.get(key) if node is not None else None
        if node is None or stream is None:
            return
        ends = node.entries[key].value
        if ends.first <= item.sequence < ends.next:  # type: ignore[union-attr]
            stream.items.append(item)

    def record(self, changes: Changes) -> None:
        """Applies a record that the tables may lack; what it changes counts as unsaved again."""
        for row, type_ in enumerate(changes.types):
            place = changes.places[changes.path[row]]
            if type_ == EventType.ENVIRONMENT_REGISTERED:
                self._registered(changes, row, place.path, place.number)
            node = self.tree.nodes.by_number.get(place.number)
            if node is None:
                continue
            if type_ in _DECLARING:
                self._declared(changes, row, node)
            elif type_ == EventType.ENVIRONMENT_DELETED:
                self.tree.nodes.detach([node])
                self.tree.unsaved.environments_gone([node])
            elif EventType.ENTRY_SET <= type_ <= EventType.ENTRY_MOVED or type_ in _OF_MEMBERS:
                self._entry_row(changes, row, node, type_)
        self.tree.revision = changes.last_revision

    def finish(self) -> None:
        """Counts the entries for every declared aggregate and gate; finds what lives under each lease, and where."""
        for node in self.tree.nodes.by_number.values():
            declaration, node.declaration = node.declaration, Declaration()
            node.declare(declaration)
            self.tree.spaces.recover(node)
            self._find_leased(node)
            self.tree.schemas.in_use |= node.schema is not None
            self.tree.note_grants(node, (), declaration.grants)
            gate = node.gate
            if gate is not None and gate.collecting:
                self.tree.timed.append(node)
        for node in self.tree.nodes.by_number.values():  # once the members and the entries of all are counted
            self.tree.roll_ups.declared(node)
            self.tree.waiting.follow(node, self.tree.revision)
        self.tree.settle_quietly()

    def _find_leased(self, node: Node) -> None:
        """Counts the members, and finds what lives under leases again."""
        holdings = self.tree.holdings
        if node.declaration.lease:
            holdings.add(node.declaration.lease, node, "")
        for key, entry in node.entries.items():
            if entry[5]:
                holdings.add(entry[5], node, key)
                node.members += entry[4] == MEMBER

    def _registered(self, changes: Changes, row: int, path: str, number: int) -> None:
        nodes = self.tree.nodes
        if number in nodes.by_number:
            if number == nodes.root.number:  # there from the start, and made in revision 1 all the same
                nodes.root.created = changes.revisions[row]
            return
        parent_path, _, name = path.rpartition("/")
        parent = nodes.by_path.get(parent_path or "/")
        if parent is None or path in nodes.by_path:  # deleted, or replaced, in rows that are in the tables already
            return
        node = nodes.attach(number, parent, name)
        node.created = changes.revisions[row]
        node.modified = node.created - 1

    def _declared(self, changes: Changes, row: int, node: Node) -> None:
        extra = changes.extras.get(row)
        if extra is None or extra.declaration is None or changes.versions[row] < node.version:
            return
        node.declaration = extra.declaration
        node.version, node.modified = changes.versions[row], changes.revisions[row]
        self.tree.unsaved.environment(node)

    def _entry_row(self, changes: Changes, row: int, node: Node, type_: int) -> None:
        key, revision, version = changes.keys[row], changes.revisions[row], changes.versions[row]
        old = node.entries.get(key)
        if old is not None and (old.modified > revision or (old.modified == revision and old.version >= version)):
            return
        node.unsaved[key] = None
        if type_ == ENTRY_MOVED:
            if old is not None:
                node.entries[key] = _moved(old, changes.values[row], version, revision)  # type: ignore[arg-type]
            return
        if type_ in _DELETING:
            node.entries.pop(key, None)
            stream = node.streams.pop(key, None)
            if stream is not None and old is not None:
                self.tree.unsaved.stream_dropped(node, key, old.value.first, old.value.next)  # type: ignore[union-attr]
            return
        if version == 1 or old is None:
            extra = changes.extras.get(row)
            created, kind, lease = revision, _KINDS[EventType(type_)], extra.lease if extra is not None else 0
            position = None
        else:
            created, kind, lease, position = old.created, old.kind, old.lease, old.position
        if type_ == EventType.ENTRY_APPENDED:
            state = self._appended(changes, row, node, key, old)
            node.entries[key] = Entry(state, version, created, revision, STREAM, lease, position)
        else:
            value: Any = changes.values[row]
            node.entries[key] = Entry(value, version, created, revision, kind, lease, position)

    def _appended(self, changes: Changes, row: int, node: Node, key: str, old: Entry | None) -> StreamEnds:
        extra = changes.extras.get(row)
        items_max = extra.stream_items_max if extra is not None else 0
        if old is None or old.kind != STREAM:
            ends = StreamEnds(1, 1, items_max or self.tree.limits.stream_items_max)
        else:
            ends = old.value  # type: ignore[assignment]
        stream = node.streams.setdefault(key, Stream())
        value = changes.values[row]
        if extra is not None and extra.stream_items_max and value is NOTHING:
            return ends
        item = StreamItem(ends.next, value, changes.revisions[row])  # type: ignore[arg-type]
        stream.items.append(item)
        stream.unsaved.append(item)
        if len(stream.items) > ends.items_max:
            stream.dropped.append(stream.items.popleft().sequence)
        return StreamEnds(stream.items[0].sequence, ends.next + 1, ends.items_max)


def _moved(entry: Entry, position: Position, version: int, revision: int) -> Entry:
    """The entry after a move that was made in this revision."""
    written = entry.written or (entry.modified if entry.modified != revision else 0)
    return entry._replace(version=version, modified=revision, position=position or None, written=written)
