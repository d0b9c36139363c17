"""Gates that wait for members: who is told when a report is written, or a member comes or goes."""

from collections.abc import Callable

from env_server.model.entries import MEMBER, Entry
from env_server.state_tree.attendance import Attendance
from env_server.state_tree.nodes import Node, Nodes

Undo = Callable[[], None]


class WaitingGates:
    """All gates of one tree that wait for members. Environments whose gate has met its condition go to `due`."""

    def __init__(self, nodes: Nodes, due: list[Node]) -> None:
        self._nodes = nodes
        self._due = due
        #: Environments whose gate waits for the members of the environment at a path, whether or not that exists.
        self._waiting: dict[str, dict[Node, None]] = {}

    def follow(self, node: Node, revision: int) -> Undo | None:
        """Call after the node's declaration has changed: begins or ends the attendance of its gate.

        `revision` is the tree's. Returns what takes that back, None when nothing has changed.
        """
        gate, before = node.gate, node.attendance
        path = gate.members_path if gate is not None and gate.collecting else ""
        begin = gate.begin_revision if gate is not None else 0
        if path == (before.members_path if before is not None else "") and (
            before is None or before.begin_revision == begin
        ):
            return None
        self._replace(node, self._count(node, path, begin, revision) if path else None)
        return lambda: self._replace(node, before)

    def reported(self, node: Node, key: str, old: Entry | None, new: Entry | None) -> None:
        """An entry beside the gate has changed; only for nodes with an attendance."""
        attendance = node.attendance
        assert attendance is not None
        was, now = attendance.is_report(old), attendance.is_report(new)
        if was is now:
            return
        members = self._nodes.by_path.get(attendance.members_path)
        entry = members.entries.get(key) if members is not None else None
        if entry is not None and entry[4] == MEMBER:
            attendance.missing += -1 if now else 1
            self._look(node, attendance)

    def came(self, node: Node, key: str) -> None:
        """A member of the node has joined, or is back as its leave is taken back."""
        node.members += 1
        if node.path in self._waiting:
            self._move(node, key, 1)

    def went(self, node: Node, key: str) -> None:
        """A member of the node has left or expired, or its joining is taken back."""
        node.members -= 1
        if node.path in self._waiting:
            self._move(node, key, -1)

    def concerns(self, node: Node) -> bool:
        """Whether the node's gate waits for members, or somebody for its members."""
        return node.attendance is not None or node.path in self._waiting

    def gone(self, node: Node) -> Undo:
        """The node was deleted: its gate waits no more, nor anybody for its members. Returns what takes that back."""
        before = node.attendance
        self._replace(node, None)
        forgotten = []
        for waiting in self._waiting.get(node.path, ()):
            attendance = waiting.attendance
            assert attendance is not None
            forgotten.append((attendance, attendance.members, attendance.missing))
            attendance.members = attendance.missing = 0

        def undo() -> None:
            for attendance, members, missing in forgotten:
                attendance.members, attendance.missing = members, missing
            self._replace(node, before)

        return undo

    def look(self, node: Node) -> None:
        """Marks the gate for opening when its condition is met already."""
        if node.attendance is not None:
            self._look(node, node.attendance)

    def _look(self, node: Node, attendance: Attendance) -> None:
        if attendance.is_complete:
            self._due.append(node)

    def _move(self, node: Node, key: str, step: int) -> None:
        for waiting in self._waiting[node.path]:
            attendance = waiting.attendance
            assert attendance is not None
            attendance.members += step
            if not attendance.is_report(waiting.entries.get(key)):
                attendance.missing += step
            self._look(waiting, attendance)

    def _replace(self, node: Node, attendance: Attendance | None) -> None:
        before, node.attendance = node.attendance, attendance
        if before is not None:
            waiting = self._waiting[before.members_path]
            waiting.pop(node, None)
            if not waiting:
                del self._waiting[before.members_path]
        if attendance is not None:
            self._waiting.setdefault(attendance.members_path, {})[node] = None

    def _count(self, node: Node, path: str, begin: int, revision: int) -> Attendance:
        attendance = Attendance(path, begin)
        members = self._nodes.by_path.get(path)
        if members is None:
            return attendance
        attendance.members = attendance.missing = members.members
        if begin <= revision:  # not at its begin, when nobody can have reported
            reports = node.entries
            attendance.missing = sum(
                not attendance.is_report(reports.get(key))
                for key, entry in members.entries.items()
                if entry[4] == MEMBER
            )
        return attendance
