"""The tree: applies one op at a time to the state and writes its rows into the open commit group.

An op is checked, then applied; a check that fails raises before anything changed. Transactions apply write after
write with a journal; when one fails the journal takes the earlier ones back, so nobody ever sees a part (nothing else
runs meanwhile: it is one loop step). All rows of an op carry revision + 1; `advance` makes that the revision.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from env_server.model.changes import Changes, EventType, Extra, Fact, FactKind, Place
from env_server.model.entries import Entry
from env_server.model.environments import AggregateValue, Declaration, Gate, GateCause, Grant
from env_server.model.errors import Exhausted, Reason
from env_server.model.limits import Limits
from env_server.model.ports import CompileSchema, OpenSpace
from env_server.model.values import NOTHING, Json, Nothing, Value
from env_server.state_tree.aggregates.rollups import RollUps
from env_server.state_tree.grants import Grants
from env_server.state_tree.holdings import Holdings
from env_server.state_tree.nodes import Node, Nodes
from env_server.state_tree.remains import Remains
from env_server.state_tree.schemas import Schemas
from env_server.state_tree.spaces import Spaces
from env_server.state_tree.timing import Timing
from env_server.state_tree.unsaved import Unsaved
from env_server.state_tree.waiting_gates import WaitingGates


class Tree:
    """State of one world. Every method runs on the world's thread and returns at once."""

    def __init__(
        self, limits: Limits, compile_schema: CompileSchema | None = None, open_space: OpenSpace | None = None
    ) -> None:
        self.limits = limits
        self.schemas = Schemas(compile_schema, limits)
        self.spaces = Spaces(open_space, limits)
        self.nodes = Nodes(limits)
        self.unsaved = Unsaved(self.nodes)
        self.grants = Grants()
        self.remains = Remains()
        #: Revision of the last applied op.
        self.revision = 0
        #: The open commit group; rows go here.
        self.changes = Changes(number=1, base_revision=0)
        #: What takes back the ops of the running transaction, in order; None outside of one.
        self.journal: list[Callable[[], None]] | None = None
        #: Environments whose gate has met its condition and not been opened yet.
        self.due: list[Node] = []
        #: Those of them that wait for members.
        self.waiting = WaitingGates(self.nodes, self.due)
        #: What lives under each lease.
        self.holdings = Holdings(self.nodes)
        #: Environments whose aggregates changed in the open group.
        self.stirred: dict[Node, None] = {}
        self.roll_ups = RollUps(self.stirred)
        #: Environments whose gate began a generation, opened or was declared anew; the pipeline sets the timers.
        self.timed: list[Node] = []
        #: The clocks of environments; None = nobody keeps any.
        self.timing: Timing | None = None
        #: What the open group repeats of stored documents; see `weigh`.
        self.repeated_bytes = 0
        #: Entries and environments that ops of the open group had to look at; see `look`.
        self.looked = 0
        #: Bytes of the outcomes that answers in the open group list.
        self.answers_bytes = 0
        self.begin_group(self.changes)

    def begin_group(self, changes: Changes) -> None:
        """Directs rows into a new commit group."""
        self.changes = changes
        self.repeated_bytes = self.looked = self.answers_bytes = 0
        self.row_appends = (
            changes.path.append,
            changes.revisions.append,
            changes.types.append,
            changes.keys.append,
            changes.values.append,
            changes.versions.append,
        )

    def advance(self) -> int:
        """Ends an op that had an effect: opens the gates it filled, then makes its revision the current one."""
        if self.due:
            self._open_due()
        self.revision += 1
        return self.revision

    def weigh(self, size_bytes: int) -> None:
        """Counts what the running op will repeat of stored documents: a small request can ask for much of that.

        Raises:
            Exhausted: RATE_LIMITED while the open group repeats too much already.
        """
        maximum = self.limits.group_repeated_bytes_max
        if self.repeated_bytes > maximum:
            problem = f"the changes under way repeat more than group_repeated_bytes_max = {maximum} bytes of documents"
            raise Exhausted.of(
                Reason.RATE_LIMITED, "group_repeated_bytes_max", maximum, problem, self.limits.retry_delay_ms
            )
        self.repeated_bytes += size_bytes

    def look(self, count: int) -> None:
        """Counts the entries and environments that the running op looks at, of however many it is asked to change.

        Raises:
            Exhausted: RATE_LIMITED while ops of the open group have looked at too many already.
        """
        maximum = self.limits.group_looks_max
        if self.looked > maximum:
            problem = f"the changes under way look at more than group_looks_max = {maximum} entries and environments"
            raise Exhausted.of(Reason.RATE_LIMITED, "group_looks_max", maximum, problem, self.limits.retry_delay_ms)
        self.looked += count

    def has_looked(self, count: int) -> None:
        """Counts what was looked at, after `look(0)`, or where nothing may be refused."""
        self.looked += count

    def row(self, node: Node, type_: int, key: str, value: Value | Nothing, version: int) -> None:
        """Writes one row of the running op."""
        path, revisions, types, keys, values, versions = self.row_appends
        path(node.place if node.group == self.changes.number else self.place(node))
        revisions(self.revision + 1)
        types(type_)
        keys(key)
        values(value)
        versions(version)

    def place(self, node: Node) -> int:
        """The node's index in the group's path table, entered when it is new there."""
        places = self.changes.places
        node.group = self.changes.number
        node.place = len(places)
        timing = self.timing
        time_ns = timing.enter(node) if timing is not None and timing.any else None
        places.append(Place(node.number, node.path, node.declaration.labels, time_ns))
        return node.place

    def environment_row(
        self,
        node: Node,
        type_: EventType,
        key: str = "",
        value: Value | Nothing = NOTHING,
        changed_fields: tuple[str, ...] = (),
    ) -> None:
        """Writes a row that carries the node's declaration."""
        self.changes.extras[len(self.changes)] = Extra(declaration=node.declaration, changed_fields=changed_fields)
        self.row(node, type_, key, value, node.version)

    def tally_change(self, node: Node, key: str, old: Entry | None, new: Entry | None) -> None:
        """Lets the node's aggregates and gate follow a change of one entry."""
        tally = node.tally
        assert tally is not None
        tally.change(old, new)
        if tally.reported == tally.target:
            self.due.append(node)
        if tally.changed:
            self.stirred[node] = None
            if tally.lifts:
                self.roll_ups.noted[node] = None
        if node.attendance is not None:
            self.waiting.reported(node, key, old, new)

    def note_due(self, node: Node) -> None:
        """Marks the gate for opening when a changed target is met already."""
        if node.tally is not None and 0 <= node.tally.target <= node.tally.reported:
            self.due.append(node)
        self.waiting.look(node)

    def redeclare(self, node: Node, declaration: Declaration) -> None:
        """Replaces a declaration as part of the running op, with undo; the caller writes the row."""
        before = (node.declaration, node.tally, node.version, node.modified)
        space = (node.space, node.borders)

        def undo() -> None:
            self.note_grants(node, node.declaration.grants, before[0].grants)
            after = node.tally
            node.restore(before[0], before[1], *space)
            self.roll_ups.declared(node, after)
            node.version, node.modified = before[2], before[3]
            node.group = 0

        if self.journal is not None:
            self.journal.append(undo)
        if declaration.labels != node.declaration.labels:
            node.group = 0  # the path table records labels: enter it again
        self.note_grants(node, node.declaration.grants, declaration.grants)
        self.roll_ups.settle()  # what was counted so far is counted in the tally that may be replaced
        counts_anew = not node.goes_on(declaration)
        node.declare(declaration)
        self._stir_redeclared(node, before[0], counts_anew)
        self.roll_ups.declared(node, before[1])
        undo_waiting = self.waiting.follow(node, self.revision)
        if undo_waiting is not None and self.journal is not None:
            self.journal.append(undo_waiting)
        node.version += 1
        node.modified = self.revision + 1
        self.unsaved.environment(node)

    def _stir_redeclared(self, node: Node, before: Declaration, counts_anew: bool) -> None:
        """Lets the aggregates be told that a new declaration, or the begin of a generation, has changed."""
        tally, declared = node.tally, node.declaration.aggregates
        if tally is None:
            return
        if counts_anew and (declared != before.aggregates or any(one.in_generation for one in declared)):
            tally.changed = bool(declared)
        if tally.changed:
            self.stirred[node] = None

    def note_grants(self, node: Node, before: tuple[Grant, ...], after: tuple[Grant, ...]) -> None:
        """Lets the views of groups follow what the node grants."""
        if before or after:
            self.grants.change(node.path, before, after, self.changes.number)

    def aggregates(self, node: Node, names: tuple[str, ...] = ()) -> list[AggregateValue]:
        """The node's aggregates of these names, all when none is given, as of the last applied change."""
        self.roll_ups.settle()
        return node.tally.values(names) if node.tally is not None else []

    def settle_quietly(self) -> None:
        """Lets every aggregate follow what was recovered; nothing of it is an event."""
        self.roll_ups.settle()
        for node in self.stirred:
            if node.tally is not None:
                node.tally.changed = False
        self.stirred.clear()

    def open_gate(self, node: Node, gate: Gate, cause: GateCause) -> None:
        """Opens a collecting gate as part of the running op, with its row."""
        assert node.tally is not None
        reported = node.tally.reported
        aggregates = {told.name: list(told.buckets) or told.value for told in self.aggregates(node)}
        self.redeclare(node, _with_gate(node.declaration, gate.open(self.revision + 1, cause)))
        told = {
            "gate": gate.name,
            "generation": gate.generation,
            "cause": cause.name.lower(),
            "reported": reported,
            "aggregates": aggregates,
        }
        self.environment_row(node, EventType.GATE_OPENED, gate.name, Json.of(told))
        self.timed.append(node)

    def begin_generation(self, node: Node, gate: Gate, count_target: int | None, deadline_ms: int | None) -> None:
        """Begins the gate's next generation as part of the running op, with its row."""
        begun = gate.begin(self.revision + 1, count_target, deadline_ms)
        # Entries written in this very revision come before the generation; later ones are its reports.
        self.redeclare(node, _with_gate(node.declaration, begun))
        told = {
            "gate": begun.name,
            "generation": begun.generation,
            "count_target": begun.count_target,
            "deadline_ms": begun.deadline_ms,
        }
        self.environment_row(node, EventType.GATE_BEGUN, begun.name, Json.of(told))
        self.timed.append(node)

    def note_fact(self, kind: FactKind, key: str, value: bytes | None, revision: int = 0) -> None:
        """Writes a fact of the running op, or of none; a transaction that fails takes it back.

        It counts from `revision` on; 0 = from the next one, that of the running op.
        """
        self.changes.facts.append(Fact(kind, key, value))
        self.changes.fact_revisions.append(revision or self.revision + 1)

    @contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """Around the parts of one op: an exception takes back those that were applied."""
        mark = self._mark()
        try:
            yield
        except BaseException:
            self._roll_back(*mark)
            raise
        self.journal = None

    def _mark(self) -> tuple[int, int, int, int]:
        """Begins a journal; returns the rows, stirred and timed nodes and facts to roll back to."""
        self.roll_ups.settle()  # what was stirred before stays stirred when this is taken back
        self.journal = []
        return len(self.changes), len(self.stirred), len(self.timed), len(self.changes.facts)

    def _roll_back(self, row: int, stirred: int, timed: int, facts: int) -> None:
        """Takes back everything since `_mark`, newest first, and ends the journal."""
        journal, self.journal = self.journal, None
        assert journal is not None
        for undo in reversed(journal):
            undo()
        self.roll_ups.settle()
        while len(self.stirred) > stirred:
            node, _ = self.stirred.popitem()
            if node.tally is not None:
                node.tally.changed = False
        del self.timed[timed:], self.changes.facts[facts:], self.changes.fact_revisions[facts:]
        changes = self.changes
        for column in (changes.path, changes.revisions, changes.types, changes.keys, changes.values, changes.versions):
            del column[row:]
        for late in [index for index in changes.extras if index >= row]:
            del changes.extras[late]
        self.due.clear()

    @property
    def owes_aggregates(self) -> bool:
        """Whether aggregates may have changed in the open group, of which rows are still to be written."""
        return bool(self.stirred or self.roll_ups.noted)

    def note_aggregates(self) -> None:
        """Writes one row for each aggregate that changed in the group, at the group's last revision."""
        self.roll_ups.settle()
        if not self.stirred:
            return
        path, revisions, types, keys, values, versions = self.row_appends
        for node in self.stirred:
            tally = node.tally
            if tally is None or not tally.changed or node.number not in self.nodes.by_number:
                continue
            tally.changed = False
            for told in tally.values():
                value: Value = Json.of(list(told.buckets)) if told.buckets else told.value
                path(node.place if node.group == self.changes.number else self.place(node))
                revisions(self.revision)
                types(EventType.AGGREGATE_CHANGED)
                keys(told.name)
                values(value)
                versions(node.version)
        self.stirred.clear()

    def _open_due(self) -> None:
        for node in self.due:
            gate = node.gate
            tally = node.tally
            if node.number not in self.nodes.by_number:  # deleted by the op that filled it
                continue
            if gate is None or not gate.collecting or tally is None:
                continue
            if 0 < gate.count_target <= tally.reported:
                self.open_gate(node, gate, GateCause.COUNT)
            elif node.attendance is not None and node.attendance.is_complete:
                self.open_gate(node, gate, GateCause.MEMBERS)
        self.due.clear()


def _with_gate(declaration: Declaration, gate: Gate) -> Declaration:
    return replace(declaration, gates=(gate,))
