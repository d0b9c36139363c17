"""Environments in memory, and the tree of them."""

from collections import deque
from collections.abc import Iterator, Sequence

from env_server.model.entries import Entry, StreamItem
from env_server.model.environments import Declaration, EnvironmentState, Gate, GateState
from env_server.model.errors import NotFound, Reason
from env_server.model.limits import Limits
from env_server.model.names import ROOT, check_segment, join_path, split_path
from env_server.model.ports import SpaceIndex
from env_server.model.values import Json
from env_server.state_tree.aggregates.tallies import Tally
from env_server.state_tree.attendance import Attendance
from env_server.state_tree.borders import Borders
from env_server.state_tree.concurrency import find_concurrency


class Stream:
    """Items of a stream entry, and those of them that the state tables lack."""

    __slots__ = ("dropped", "items", "unsaved")

    def __init__(self) -> None:
        self.items: deque[StreamItem] = deque()
        self.unsaved: list[StreamItem] = []
        self.dropped: list[int] = []


class Node:
    """One environment. Only this folder writes to it."""

    __slots__ = (
        "__weakref__",
        "attendance",
        "borders",
        "children",
        "concurrency_max",
        "created",
        "declaration",
        "entries",
        "group",
        "members",
        "modified",
        "name",
        "number",
        "open_generation",
        "parent",
        "path",
        "place",
        "schema",
        "space",
        "streams",
        "tally",
        "unsaved",
        "version",
    )

    def __init__(self, number: int, path: str, name: str, parent: "Node | None") -> None:
        self.number = number
        self.path = path
        self.name = name
        self.parent = parent
        self.children: dict[str, Node] = {}
        self.entries: dict[str, Entry] = {}
        self.streams: dict[str, Stream] = {}
        self.declaration = Declaration()
        #: That values of entries must meet. Denormalised from the declaration, as `open_generation` is.
        self.schema: Json | None = None
        #: Operations that may run in it at a time, as its config says; 0 = that says nothing. Denormalised too.
        self.concurrency_max = 0
        self.version = 1
        self.created = 0
        self.modified = 0
        #: Kept only while something is declared that needs it.
        self.tally: Tally | None = None
        #: Kept only while the gate waits for the members of another environment.
        self.attendance: Attendance | None = None
        #: Entries that are members.
        self.members = 0
        #: Where the entries are; None = it has no space.
        self.space: SpaceIndex | None = None
        #: Regions and proximities of the space; not None where that is not.
        self.borders: Borders | None = None
        #: Generation that the gate accepts reports for; 0 = none. Denormalised from the declaration for the hot path.
        self.open_generation = 0
        #: Number of the commit group in which `place` is this node's index of the path table.
        self.group = 0
        self.place = 0
        #: Keys whose entries the state tables lack, in the order of their changes.
        self.unsaved: dict[str, None] = {}

    @property
    def gate(self) -> Gate | None:
        """The declared gate; an environment has at most one."""
        gates = self.declaration.gates
        return gates[0] if gates else None

    def declare(self, declaration: Declaration) -> None:
        """Takes over a declaration, its tally and its gate; scans the entries when an aggregate is new."""
        old, tally = self.declaration, self.tally
        self.declaration = declaration
        self.schema = declaration.schema
        if declaration.config is not old.config:
            self.concurrency_max = find_concurrency(declaration)
        gate = self.gate
        self.open_generation = gate.generation if gate is not None and gate.collecting else 0
        if not declaration.aggregates and gate is None:
            self.tally = None
        elif tally is None or not _goes_on(tally, old, declaration):
            self.tally = Tally(declaration.aggregates, gate)
            self.tally.scan(self.entries.values())
            self.tally.changed = tally is not None and tally.changed
        elif gate is not None and gate.begin_revision > tally.begin_revision:
            self.tally = tally.next_generation(gate)
        elif gate is not None:
            tally.aim(gate)

    def goes_on(self, declaration: Declaration) -> bool:
        """Whether `declare` would keep what was counted, so that it looks at no entry."""
        if not declaration.aggregates and not declaration.gates:
            return self.tally is None
        return self.tally is not None and _goes_on(self.tally, self.declaration, declaration)

    def restore(
        self, declaration: Declaration, tally: Tally | None, space: SpaceIndex | None, borders: Borders | None
    ) -> None:
        """Goes back to an earlier declaration and what belonged to it."""
        self.space, self.borders = space, borders
        self.declaration, self.tally = declaration, tally
        self.concurrency_max = find_concurrency(declaration)
        gate = self.gate
        self.open_generation = gate.generation if gate is not None and gate.collecting else 0
        if tally is not None and gate is not None:
            tally.aim(gate)

    def state(self) -> EnvironmentState:
        """The environment as it is now."""
        gate = self.gate
        gates = (GateState(gate, self.tally.reported),) if gate is not None and self.tally is not None else ()
        return EnvironmentState(
            self.path,
            self.number,
            self.declaration,
            self.version,
            self.created,
            self.modified,
            len(self.entries),
            len(self.children),
            gates,
        )

    def descendants(self) -> Iterator["Node"]:
        """All nodes below, parents first, children in name order."""
        stack = [self.children[name] for name in sorted(self.children, reverse=True)]
        while stack:
            node = stack.pop()
            yield node
            stack.extend(node.children[name] for name in sorted(node.children, reverse=True))


def _goes_on(tally: Tally, old: Declaration, new: Declaration) -> bool:
    """Whether what was counted stays counted; a gate that did not begin yet counts from the start."""
    begun = new.gates[0].begin_revision if new.gates else 0
    return new.aggregates == old.aggregates and bool(new.gates) == bool(old.gates) and begun >= tally.begin_revision


class Nodes:
    """The tree: nodes by path and by number. The root always exists and has number 1."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.root = Node(1, ROOT, "", None)
        self.by_path: dict[str, Node] = {ROOT: self.root}
        self.by_number: dict[int, Node] = {1: self.root}
        self.next_number = 2

    def find(self, path: str) -> Node:
        """The environment at `path`.

        Raises:
            InvalidRequest: INVALID_PATH.
            NotFound: ENVIRONMENT_NOT_FOUND.
        """
        node = self.by_path.get(path)
        if node is None:
            split_path(path, self._limits)
            raise NotFound(Reason.ENVIRONMENT_NOT_FOUND, path=path)
        return node

    def absent(self, node: Node, key: str) -> NotFound:
        """What to raise when an environment has no entry of that key.

        Raises:
            InvalidRequest: INVALID_KEY: no entry can have it.
        """
        check_segment(key, self._limits)
        return NotFound(Reason.ENTRY_NOT_FOUND, path=node.path, key=key)

    def attach(self, number: int, parent: Node, name: str) -> Node:
        """A new child; the caller has checked that there is none of that name."""
        node = Node(number, join_path(parent.path, name), name, parent)
        parent.children[name] = node
        self.by_path[node.path] = node
        self.by_number[number] = node
        self.next_number = max(self.next_number, number + 1)
        return node

    def detach(self, gone: Sequence[Node]) -> None:
        """Takes the first of the nodes out of the tree; the others are all that is below it."""
        top = gone[0]
        assert top.parent is not None, "the root stays"
        top.parent.children.pop(top.name, None)
        by_path, by_number = self.by_path, self.by_number
        for node in gone:
            by_path.pop(node.path, None)
            by_number.pop(node.number, None)

    def reattach(self, gone: Sequence[Node]) -> None:
        """Undoes `detach`."""
        top = gone[0]
        assert top.parent is not None
        top.parent.children[top.name] = top
        self.by_path.update((node.path, node) for node in gone)
        self.by_number.update((node.number, node) for node in gone)
