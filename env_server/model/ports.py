"""What the engine needs from outside, as interfaces: a clock and a commit log, each in a real and a simulated form."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from env_server.model.changes import Changes, Fact
from env_server.model.entries import Entry, StreamItem
from env_server.model.environments import Declaration
from env_server.model.frames import Answer, Outcome
from env_server.model.limits import Limits
from env_server.model.spaces import Area, Box, Position, Shape
from env_server.model.values import Json, Value

Violation = tuple[str, str]
"""Where something is wrong in a value, as a JSON pointer, and what."""


class Schema(Protocol):
    """A compiled schema of values."""

    def violations(self, value: Value) -> tuple[Violation, ...]:
        """What is wrong with a value; () = nothing.

        Raises:
            LimitExceeded: checking it would take too long.
        """


CompileSchema = Callable[[Json, Limits], Schema]
"""Raises InvalidRequest and LimitExceeded for what is no schema, or none that is served."""


Near = tuple[float, str]
"""How far away somebody is, and who."""


class SpaceIndex(Protocol):
    """The positions of one environment's entries, and what is asked of them: never by a look at all of them.

    Lists of `Near` are sorted: nearest first, of equal distance in key order. Nothing here depends on the order in
    which entries came. Distances are exact to the shape: 0 to oneself, and the same in both directions, bit for bit;
    only of a directed graph they lead from the position that is asked about to the entries.

    The queries, from `within` on, check what they are given, and all raise LimitExceeded once they have looked at more
    than `looks_max`; so does whatever follows the edges of a graph. `check`, `put` and `drop` never do.
    """

    dimensions: int

    @property
    def looked(self) -> int:
        """What the last query looked at: entries, and what led to them."""

    looks_max: int
    """`space_looks_max`, unless the owner sets another."""

    def check(self, position: Position) -> Position:
        """The position in its one form (0.0 for -0.0, one longitude at the poles and at 180 degrees).

        Raises:
            InvalidRequest: INVALID_POSITION: outside, not finite, no cell or node, of another number of dimensions.
        """

    def accept_areas(self, areas: Sequence[Area], before: "Areas | None" = None) -> "Areas":
        """Areas that the shape can have. `before`: some that were accepted, of which nothing is found out again.

        Raises:
            InvalidRequest: as `check`, and INVALID_FIELD; nothing much was looked at then.
            LimitExceeded: discs of a graph that together take more looks than a query may.
        """

    def areas(self, areas: Sequence[Area]) -> "Areas":
        """Areas that were accepted once, by an index of the same shape."""

    def is_full(self, position: Position) -> bool:
        """Whether the cell or node there holds as many as it may."""

    def put(self, key: str, position: Position) -> None:
        """The entry is there; it is nowhere else. A checked position."""

    def drop(self, key: str) -> None:
        """The entry is nowhere; without effect when it was."""

    def __len__(self) -> int:
        """Entries that are somewhere."""

    def let_go(self, items_max: int) -> int:
        """Frees about so much of what it holds, and returns how much; 0 = nothing is left. It is asked nothing more."""

    def apart(self) -> "SpaceIndex":
        """An index of the same shape with nobody in it, made at once: it shares what never changes."""

    def distance(self, one: Position, other: Position, *, hops: bool = False) -> float:
        """Between two positions; infinite where no way leads."""

    def way(self, one: Position, other: Position, *, hops: bool = False) -> tuple[int, ...]:
        """Of a graph: the nodes of a shortest way; () where none leads, and of other shapes.

        Of several the one of fewest edges, of those the first in lexicographic order.
        """

    def within(self, position: Position, radius: float, *, hops: bool = False) -> list[Near]:
        """Entries at most `radius` away."""

    def nearest(self, position: Position, count: int, *, hops: bool = False) -> list[Near]:
        """The `count` nearest entries; fewer when there are no more, or none that can be reached."""

    def places(self) -> list[Position] | None:
        """Where those are whom the last `within`, `nearest` or `adjacent` told, in its order, if nothing has changed.

        None = the index would have to look them up one by one, as the caller can.
        """

    def adjacent(self, position: Position) -> list[Near]:
        """Entries in the same cell or node and those next to it.

        Raises:
            InvalidRequest: INVALID_FIELD: the shape has no cells.
        """

    def vicinities(self, radius: float) -> "Vicinities | None":
        """An empty one of these, apart from the entries of this index; None where nothing is better than `within`.

        Raises:
            InvalidRequest: INVALID_FIELD: no radius.
        """

    def in_box(self, box: Box) -> list[str]:
        """Keys of the entries in it, sorted."""


class Areas(Protocol):
    """Many areas of a space. What they cover is found out once; from then on which of them are there is soon told."""

    @property
    def looked(self) -> int:
        """What was looked at until now, to find out what they cover."""

    @property
    def is_ready(self) -> bool:
        """Whether that is known, so that `at` looks at nothing more."""

    def at(self, position: Position) -> Sequence[int]:
        """Which of them contain a checked position, their borders included: places in the sequence, ascending."""


class Vicinities(Protocol):
    """For everybody's neighbours within one radius: all are put into it, once each, then asked about by their numbers.

    Numbers begin with 0 and go on as entries come.
    """

    @property
    def looked(self) -> int:
        """What it has looked at until now: entries, for all that were asked about."""

    def put(self, positions: Sequence[Position]) -> None:
        """More entries, at checked positions."""

    def find(self, asked: Sequence[int]) -> tuple[list[int], list[int]]:
        """Of the first of `asked`, as many as one step may take: how many neighbours each has, and then their numbers.

        Distances are those of `SpaceIndex.within`. The nearest first, of equal distance by their numbers; nobody is a
        neighbour of its own.

        Raises:
            LimitExceeded: space_looks_max.
        """


OpenSpace = Callable[[Shape, Limits], SpaceIndex]
"""Raises InvalidRequest and LimitExceeded for a shape that is none, or too large."""


class Handle(Protocol):
    """A scheduled call."""

    def cancel(self) -> None:
        """Makes it not happen; without effect when it has happened."""


class Clock(Protocol):
    """Time and the loop's agenda. Every call happens on the world's own thread."""

    def monotonic_ns(self) -> int:
        """Never goes back; for deadlines, gates and leases."""

    def origin(self) -> str:
        """Names what `monotonic_ns` counts from: where it is the same, times can be compared. "" = it has no name."""

    def wall_ns(self) -> int:
        """For people; may jump. Recorded, never compared."""

    def call_soon(self, call: Callable[[], None]) -> None:
        """Runs `call` in the next loop step."""

    def call_later(self, delay_s: float, call: Callable[[], None]) -> Handle:
        """Runs `call` after the delay."""


#: The last number of a producer and what came of it: (seq, revision, version) of a plain write, by far the commonest
#: and so no object of its own, or (seq, outcome, 0).
ProducerMark = tuple[int, Outcome | int, int]


class SessionMark(NamedTuple):
    """The answers kept for a client, oldest first."""

    client_id: str
    last_seq: int
    answers: tuple[Answer, ...]
    acknowledged: int = 0
    """Frames up to this one are forgotten."""
    used: int = 0
    """Number of the log record that holds the last answer kept for it."""
    floor: int = 0
    """It may lack answers that were kept up to this record."""


class EnvironmentRow(NamedTuple):
    """An environment as stored."""

    number: int
    path: str
    declaration: Declaration
    version: int
    created: int
    modified: int


class StateChunk(NamedTuple):
    """Part of the materialised state, newer than or equal to what the log says; written in the next commit.

    None in the place of a row deletes it. `applied_through` is set by the chunk that completes a round: every change
    up to that record number is now in the state tables.
    """

    environments: dict[int, EnvironmentRow | None]
    entries: dict[tuple[int, str], Entry | None]
    items: dict[tuple[int, str, int], StreamItem | None]
    producers: dict[str, ProducerMark | None]
    sessions: dict[str, SessionMark | None]
    entry_ranges_deleted: tuple[int, ...]
    """Numbers of deleted environments of which entries, items and the facts of timers are to be dropped, in time.

    No later chunk may hold rows of them.
    """
    applied_through: int | None
    facts: dict[tuple[int, str], bytes | None] = {}  # noqa: RUF012 - a NamedTuple's default, never written to
    """By kind and key."""


class Origin(NamedTuple):
    """A moment of a world."""

    world: str
    history: str
    revision: int


class Head(NamedTuple):
    """Where a stored world stands."""

    history: str
    revision: int
    record_number: int
    next_environment_number: int
    first_revision: int
    """The oldest revision still in the log; revision + 1 when the log is empty."""
    applied_through: int
    restored_from: Origin | None = None
    """What the world was copied from, if it began as a copy."""


class CommitLog(Protocol):
    """The durable log and the state tables of one world. Appends from one thread; one writer commits."""

    def load(self) -> "Loaded":
        """Head, state tables and the records after `applied_through`, as found at open. Before `start`.

        The state may be newer than `applied_through`: of a row of a record whose revision is not above that of the
        entry or environment in the state, the effect is there already. Its environment may be gone altogether.
        """

    def start(
        self,
        *,
        call: Callable[..., object],
        on_durable: Callable[[int], None],
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        """Begins to commit. Reports come by `call(on_durable, number)`: all records up to this one are durable.

        `call` is the loop's call_soon_threadsafe. A failed commit is fatal: `call(on_fatal, error)` once, and nothing
        becomes durable any more, whatever is appended.
        """

    def append(self, changes: Changes, state: StateChunk | None) -> None:
        """Queues one sealed group (and a chunk of state) for the writer. Sets `changes.size_bytes`.

        Groups queued together may share one fsync; they become durable in order. The chunk is encoded later, in the
        writer: its dicts must not be changed any more.
        """

    def read(self, from_revision: int, bytes_max: int) -> list[Changes]:
        """Records that hold `from_revision` or later ones, in order, until `bytes_max` is exceeded or the log ends.

        Records that hold only outcomes are left out. May block on disk: call it from a reader thread. Empty when
        `from_revision` lies above the log.

        Raises:
            OutOfRange: REVISION_COMPACTED when it lies below.
        """

    @property
    def first_revision(self) -> int:
        """The oldest revision still in the log; it rises as the log is trimmed."""

    @property
    def owes_compaction(self) -> bool:
        """Whether, as of the last commit, the log begins with a record that `compact` asked to forget and may.

        It goes a few records a commit, and only once the state tables hold what they changed.
        """

    @property
    def held(self) -> tuple[int, int]:
        """Whom the log was kept for as of the last commit, and how large it was: (revision, bytes).

        The revision is what `retain` asked for, if the log begins with the record that holds it; (0, 0) if not.
        """

    def retain(self, revision: int | None) -> None:
        """Keeps everything from this revision on, whatever its size and age; None = nothing in particular.

        Holds for the commits of what is appended from now on. A commit under way may still trim what nobody asked to
        keep before: look at `first_revision` once a group that was appended later is durable.
        """

    def compact(self, revision: int) -> None:
        """Asks later commits to forget the records that lie wholly below `revision`, a durable one.

        Never one that the state tables lack, nor one at or above what `retain` keeps. A lower revision than asked for
        before has no effect.
        """

    def storage_bytes(self) -> int:
        """Bytes in use of the map, log and state together, as of the last commit. Cheap."""

    def room_bytes(self) -> int:
        """What `storage_bytes` can grow to: the map, or what the disk allows. Two system calls."""

    def close(self) -> None:
        """Commits what is queued, then closes. No append may follow."""


class Loaded(NamedTuple):
    """A stored world, streamed."""

    head: Head
    environments: Iterable[EnvironmentRow]
    """Parents before children."""
    entries: Iterable[tuple[int, str, Entry]]
    items: Iterable[tuple[int, str, StreamItem]]
    producers: Iterable[tuple[str, ProducerMark]]
    sessions: Iterable[SessionMark]
    facts: Iterable[Fact]
    records: Iterator[Changes]
