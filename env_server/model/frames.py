"""Frames: ops in columns on their way in, answers in columns on their way out."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from env_server.model.entries import Entry, StreamItem
from env_server.model.environments import AggregateValue, EnvironmentState, GateState
from env_server.model.errors import WorldError
from env_server.model.operations import Precondition
from env_server.model.spaces import Position
from env_server.model.values import Json, Nothing, Value


@dataclass(slots=True)
class Frame:
    """Ops sent together, in columns: element i of every list belongs to op i.

    A list that is None holds nothing for any op. `codes`, `path` and the identity columns may be shared lists
    (`[x] * n`): nobody writes to them.
    """

    paths: list[str]
    path: list[int]
    """Index into `paths` a op."""
    keys: list[str]
    codes: list[int]
    arguments: list[object]

    client_id: str = ""
    """Who sends the frame: the session's client id, or the producer of a unary call. "" = nobody to remember."""
    seq: int = 0
    sender: str = ""
    """The client id of the session that a unary call belongs to."""
    producers: list[str] | None = None
    """Own identity of an op; "" = the frame's."""
    is_request: bool = False
    """The frame is one op whose producer is a request id, and whose number the digest of what it asks."""
    producer_seqs: list[int] | None = None
    gate_generations: list[int] | None = None
    expect_versions: list[int] | None = None
    preconditions: dict[int, tuple[Precondition, ...]] | None = None
    actors: list[str] | None = None
    causes: list[str] | None = None
    principal: str = ""
    groups: list[str] | None = None
    """Path of the group whose view each op takes; "" = none, so the op is denied. None = the frame sees everything."""
    fences: tuple[Precondition, ...] = ()
    """Those that ops name; each names its own place."""
    fence: list[int] | None = None
    """Index + 1 into `fences` an op; 0 = none."""
    return_versions: bool = False
    size_bytes: int = 0
    """As received."""
    deadline_ns: int = 0
    """On the world's monotonic clock; 0 = none."""
    refused_for_now: Callable[[], None] | None = None
    """Called, once, when an op is refused for a reason that time cures."""


class Written(NamedTuple):
    """What a write did. `changed` is False for a success without an effect."""

    revision: int
    version: int
    value: Value = None
    """New sum of a counter."""
    sequence: int = 0
    """Of an appended item."""
    changed: bool = True


class EntryRead(NamedTuple):
    """An entry with its name."""

    path: str
    key: str
    entry: Entry


class EntryPage(NamedTuple):
    """Entries of one environment at one revision."""

    path: str
    entries: list[tuple[str, Entry]]
    next_page_token: str
    revision: int


class EnvironmentPage(NamedTuple):
    """Child environments at one revision."""

    environments: list[EnvironmentState]
    next_page_token: str
    revision: int


class AggregatesRead(NamedTuple):
    """Aggregates and gates of one environment."""

    values: list[AggregateValue]
    gates: tuple[GateState, ...]


class StreamPage(NamedTuple):
    """Items of a stream."""

    items: list[StreamItem]
    first: int
    next: int


class PastValue(NamedTuple):
    """One change of an entry."""

    revision: int
    type: int
    value: Value | Nothing
    version: int
    actor: str
    cause: str
    producer: str
    wall_ns: int
    position: Position = ()
    """Where a move led; () = out of the space."""


class PastPage(NamedTuple):
    """Changes of one entry, oldest first; `next_revision` 0 = there are no more."""

    values: list[PastValue]
    first_retained_revision: int
    next_revision: int


class NearbyPage(NamedTuple):
    """Entries near something, in columns; `distances` is empty when a box was asked for."""

    keys: list[str]
    distances: list[float]
    positions: list[Position]
    more: bool
    revision: int


class DistanceRead(NamedTuple):
    """How far it is, and of a graph which way."""

    distance: float
    way: tuple[int, ...]
    revision: int


class NeighbourTable(NamedTuple):
    """Neighbours of many, in columns: those of row i are the next counts[i] of `neighbours`, rows themselves.

    `others` are rows beyond those of `keys`: neighbours that were not asked for. `positions` are those of keys, then of
    others.
    """

    keys: list[str]
    counts: list[int]
    neighbours: list[int]
    others: list[str]
    positions: list[Position]
    revision: int


class Invoked(NamedTuple):
    """What an operation returned; `changed` is False when it wrote nothing."""

    revision: int
    result: Json
    changed: bool


class Transacted(NamedTuple):
    """What a transaction did: one Written for each write."""

    revision: int
    written: tuple[Written, ...]
    otherwise: bool = False


Read = (
    EntryRead
    | EnvironmentState
    | EntryPage
    | EnvironmentPage
    | AggregatesRead
    | StreamPage
    | PastPage
    | NearbyPage
    | DistanceRead
    | NeighbourTable
)
Outcome = WorldError | Written | Read | Invoked | Transacted


class Listed(NamedTuple):
    """An op's outcome in an answer's list; `duplicate` = of an earlier op with the same identity."""

    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody wants here
    outcome: Outcome
    duplicate: bool = False


@dataclass(slots=True)
class Answer:
    """The answer of a frame, or a later part of it.

    Op i took revision `base_revision` + 1 + (its rank among the ops that took one). Ops in neither list are done.
    """

    seq: int
    count: int
    base_revision: int
    part: int = 0
    without_revision: list[int] = field(default_factory=list)
    outcomes: list[Listed] = field(default_factory=list)
    pending: list[int] = field(default_factory=list)
    versions: list[int] | None = None
    revision: int = 0
    dropped: list[int] = field(default_factory=list)
    """Kept answers: ops whose outcome was listed and is not kept any more."""
