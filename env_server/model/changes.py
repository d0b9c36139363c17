"""Changes of one commit group, in columns: what the log records and the watches tell.

Row i of every list is change i. Built by the tree while ops are applied, sealed by the pipeline, then never written
to again; the ring, the watches and the writer share it.
"""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, NamedTuple

from env_server.model.declaration_documents import document_of
from env_server.model.environments import Declaration
from env_server.model.frames import Answer, Outcome
from env_server.model.spaces import Position
from env_server.model.values import NOTHING, Nothing, Value


class EventType(IntEnum):
    """Types of changes; the numbers are those of the contract."""

    ENVIRONMENT_REGISTERED = 1
    ENVIRONMENT_UPDATED = 2
    ENVIRONMENT_DELETED = 3
    ENTRY_SET = 4
    ENTRY_INCREMENTED = 5
    ENTRY_APPENDED = 6
    ENTRY_DELETED = 7
    ENTRY_MOVED = 8
    GATE_BEGUN = 9
    GATE_OPENED = 10
    AGGREGATE_CHANGED = 11
    BEHAVIOUR = 12
    MEMBER_JOINED = 13
    MEMBER_LEFT = 14
    MEMBER_EXPIRED = 15
    TIMER_FIRED = 16
    REGION_ENTERED = 17
    REGION_LEFT = 18
    PROXIMITY_ENTERED = 19
    PROXIMITY_LEFT = 20
    INITIAL = 21
    LISTENER_FAILED = 22
    LEASE_GRANTED = 23
    LEASE_ENDED = 24
    SUBSCRIPTION_CHANGED = 25
    CLOCK_CHANGED = 26
    TIMER_SET = 27
    TIMER_CANCELLED = 28


ENTRY_SET: Final = 4
ENTRY_INCREMENTED: Final = 5
ENTRY_APPENDED: Final = 6
ENTRY_DELETED: Final = 7
ENTRY_MOVED: Final = 8
MEMBER_JOINED: Final = 13
MEMBER_LEFT: Final = 14
MEMBER_EXPIRED: Final = 15
CLOCK_CHANGED: Final = 26

ENTRY_TYPES: Final = frozenset(
    {
        ENTRY_SET,
        ENTRY_INCREMENTED,
        ENTRY_APPENDED,
        ENTRY_DELETED,
        ENTRY_MOVED,
        MEMBER_JOINED,
        MEMBER_LEFT,
        MEMBER_EXPIRED,
    }
)
"""Of rows that change an entry."""


class Place(NamedTuple):
    """Where rows happened, and when: an environment's number, path and labels, and the nearest clock's time."""

    number: int
    path: str
    labels: dict[str, str]
    sim_time_ns: int | None = None
    """None = it has no clock, nor has any environment above."""


@dataclass(frozen=True, slots=True)
class Extra:
    """What only few rows have."""

    declaration: Declaration | None = None
    """Environment rows (registered, updated, gate begun or opened): the declaration after the change."""
    changed_fields: tuple[str, ...] = ()
    """Parts of the document, or of the declaration, that the change was about."""
    stream_items_max: int = 0
    """The row that created a stream."""
    lease: int = 0
    """The row that registered something under a lease."""
    kind: int = 0
    """The entry row that registered something else than its type tells."""
    depth: int = 0
    """Rows of a listener: length of the chain of listeners behind them."""


class SentRows(NamedTuple):
    """Rows that a session sent under other producers than its own client id."""

    first_row: int
    rows: int
    client_id: str


class KeptOutcome(NamedTuple):
    """The outcome of an op under its own identity, where the rows do not tell it."""

    producer: str
    seq: int
    outcome: Outcome


class KeptAnswer(NamedTuple):
    """The answer of a client's frame, reads left out."""

    client_id: str
    seq: int
    answer: Answer


class FactKind(IntEnum):
    """Whose fact it is; numbers are stored."""

    LEASE = 1
    SUBSCRIPTION = 2
    LISTENER = 3
    REQUEST = 4
    GATE = 5
    CLOCK = 6
    TIMER = 7


class Fact(NamedTuple):
    """A piece of durable state that is no entry. Of several with one kind and key the last counts; None = gone."""

    kind: FactKind
    key: str
    value: bytes | None


@dataclass(slots=True)
class Changes:
    """One commit group."""

    number: int
    """Of the log record, dense, from 1."""
    base_revision: int
    """The world's revision before the group."""
    last_revision: int = 0
    """After it; equal to `base_revision` when the group only keeps outcomes."""
    wall_ns: int = 0

    places: list[Place] = field(default_factory=list)
    path: list[int] = field(default_factory=list)
    """Index into `places` a row."""
    revisions: list[int] = field(default_factory=list)
    types: list[int] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    values: list[Value | Nothing | Position] = field(default_factory=list)
    """As stored; what is told of a row is `told_value`. Of moves the new position."""
    versions: list[int] = field(default_factory=list)
    producers: list[str] = field(default_factory=list)
    producer_seqs: list[int] = field(default_factory=list)
    actors: list[str] = field(default_factory=list)
    causes: list[str] = field(default_factory=list)
    principals: list[str] = field(default_factory=list)
    extras: dict[int, Extra] = field(default_factory=dict)
    positions: dict[int, Position] = field(default_factory=dict)
    """Where the entries are that rows of an initial state tell of; empty otherwise. Moves have theirs in `values`."""
    sent: list[SentRows] = field(default_factory=list)
    """Who sent rows, where their producer does not tell it; ascending, none twice."""

    outcomes: list[KeptOutcome] = field(default_factory=list)
    answers: list[KeptAnswer] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)
    fact_revisions: list[int] = field(default_factory=list)
    """The revision with which each fact begins to count; empty when the record does not tell, as early ones do not."""

    size_bytes: int = 0
    """Bytes of the encoded record, set when it is sealed; the ring's measure."""
    views: dict[str, object] = field(default_factory=dict)
    """Forms derived after sealing and shared by all watches, such as the encoded frame of all rows."""

    def __len__(self) -> int:
        return len(self.keys)

    def told_version(self, row: int) -> int:
        """The version that the writer of this row was told: none after a deletion, that of the move after a placing."""
        types, after = self.types, row + 1
        if after < len(types) and types[after] == ENTRY_MOVED and self._is_placed(row):
            return self.versions[after]
        return 0 if types[row] in _DELETIONS else self.versions[row]

    def told_value(self, row: int) -> Value | Nothing:
        """The value that everybody is told who is told of this row.

        Rows that declare an environment are stored without: their value follows from the declaration beside them. Moves
        have none, but a position.
        """
        if self.types[row] == ENTRY_MOVED:
            return NOTHING
        if self.types[row] in _DECLARING:
            extra = self.extras.get(row)
            if extra is not None and extra.declaration is not None:
                return document_of(extra.declaration)
        return self.values[row]  # type: ignore[return-value]

    def told_position(self, row: int) -> Position:
        """Where the entry is that a move, or a row of an initial state, tells of; () = nowhere, or another row."""
        if self.types[row] == ENTRY_MOVED:
            return self.values[row]  # type: ignore[return-value]
        return self.positions.get(row, ())

    def _is_placed(self, row: int) -> bool:
        """Whether the next row, a move, places the entry that this one has written."""
        keys, path, revisions, after = self.keys, self.path, self.revisions, row + 1
        return keys[row] == keys[after] and path[row] == path[after] and revisions[row] == revisions[after]


_DELETIONS: Final = (
    EventType.ENVIRONMENT_DELETED,
    EventType.ENTRY_DELETED,
    EventType.MEMBER_LEFT,
    EventType.MEMBER_EXPIRED,
)
_DECLARING: Final = (EventType.ENVIRONMENT_REGISTERED, EventType.ENVIRONMENT_UPDATED)
