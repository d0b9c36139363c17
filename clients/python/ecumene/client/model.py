"""What an environment service keeps, as Python values: entries, environments, aggregates, gates, outcomes."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from ecumene.client.clocks import Clock
from ecumene.client.snapshots import Origin
from ecumene.client.spaces import Proximity, Region, Space
from ecumene.client.surroundings import Nearby, Neighbours, Way

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]
Value = None | bool | int | float | str | bytes | list["Json"] | dict[str, "Json"]
"""What an entry can hold. Lists and dicts are JSON documents; ints keep 64 bits; floats are finite."""


class EntryKind(enum.IntEnum):
    """What an entry is; fixed when it is created."""

    VALUE = 1
    COUNTER = 2
    STREAM = 3
    MEMBER = 4
    """Somebody present, under a lease; see Lease.join."""


class Access(enum.IntEnum):
    """What a grant allows a group, in an environment and all below it."""

    READ = 1
    WRITE = 2


class AggregateFunction(enum.IntEnum):
    """What an aggregate computes."""

    COUNT = 1
    SUM = 2
    MEAN = 3
    MIN = 4
    MAX = 5
    HISTOGRAM = 6


class AggregateScope(enum.IntEnum):
    """What an aggregate covers."""

    ENTRIES = 1
    CHILDREN = 2


class GateCause(enum.IntEnum):
    """Why a gate opened."""

    UNSPECIFIED = 0
    COUNT = 1
    DEADLINE = 2
    OPERATION = 3
    MEMBERS = 4


class EventType(enum.IntEnum):
    """What happened."""

    UNKNOWN = 0
    """Of a type that is newer than this client."""
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
    """Not a change: a row of the initial state asked for with a watch."""
    LISTENER_FAILED = 22
    LEASE_GRANTED = 23
    LEASE_ENDED = 24
    SUBSCRIPTION_CHANGED = 25
    CLOCK_CHANGED = 26
    TIMER_SET = 27
    TIMER_CANCELLED = 28

    @classmethod
    def _missing_(cls, value: object) -> EventType:
        return cls.UNKNOWN


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry as seen at one revision."""

    path: str
    key: str
    kind: EntryKind
    value: Value
    """The value, or the sum of a counter; None for a stream."""
    version: int
    """Changes since it was created, 1 right after."""
    create_revision: int
    modify_revision: int
    stream_first: int = 0
    """Streams: number of the first item still kept."""
    stream_next: int = 0
    """Streams: number of the next item to be appended."""
    position: tuple[float, ...] = ()
    """Where it is; () = nowhere."""
    lease_id: int = 0
    value_revision: int = 0
    """Of the last change that was no mere move: up to `modify_revision`."""


@dataclass(frozen=True, slots=True)
class StreamItem:
    """An item of a stream."""

    sequence: int
    value: Value
    revision: int


@dataclass(frozen=True, slots=True)
class Aggregate:
    """Declares an aggregate that the server keeps up to date with every change; sums and means are exact."""

    name: str
    function: AggregateFunction
    scope: AggregateScope = AggregateScope.ENTRIES
    in_generation: bool = False
    """Only entries written since the current generation of the environment's gate began."""
    bounds: tuple[float, ...] = ()
    """Histogram: ascending upper bounds; one more bucket takes the rest."""
    field: str = ""
    """RFC 6901 pointer into JSON values; "" = the value itself."""


@dataclass(frozen=True, slots=True)
class AggregateValue:
    """An aggregate's value at one revision."""

    name: str
    function: AggregateFunction
    entries: int
    """Entries covered, numeric or not."""
    numbers: int
    """Entries covered whose value is a number."""
    value: Value
    """None when there is no number to aggregate."""
    buckets: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Gate:
    """Declares a gate: turns a condition on the entries written in a generation into one GATE_OPENED event."""

    name: str
    count_target: int = 0
    """Opens when this many distinct entries were written; 0 = never by count."""
    deadline_ms: int = 0
    """Opens this long after the generation began, also when it is declared later; 0 = never by time."""
    all_live_members: bool = False
    """Opens when every live member of `members_path` has reported under its own key."""
    members_path: str = ""


@dataclass(frozen=True, slots=True)
class GateState:
    """A gate as seen at one revision."""

    gate: Gate
    generation: int
    """0 = none was begun yet."""
    opened: bool
    reported: int
    cause: GateCause
    begin_revision: int
    open_revision: int


@dataclass(frozen=True, slots=True)
class Aggregates:
    """Aggregates and gates of one environment at one revision, by name."""

    values: Mapping[str, AggregateValue]
    gates: Mapping[str, GateState]


@dataclass(frozen=True, slots=True)
class Grant:
    """Lets another group see, or change, an environment and all below it."""

    group: str
    """Path of the group's environment; "*" = every group."""
    access: Access = Access.READ


@dataclass(frozen=True, slots=True)
class EnvironmentInfo:
    """An environment as seen at one revision."""

    path: str
    kind: str
    labels: Mapping[str, str]
    config: Json
    entry_schema: Json
    aggregates: tuple[Aggregate, ...]
    gates: tuple[GateState, ...]
    version: int
    create_revision: int
    modify_revision: int
    entry_count: int
    child_count: int
    grants: tuple[Grant, ...] = ()
    lease_id: int = 0
    clock: Clock | None = None
    """Its own, as declared; where it stands: Environment.clock."""
    space: Space | None = None
    regions: tuple[Region, ...] = ()
    proximities: tuple[Proximity, ...] = ()


@dataclass(frozen=True, slots=True)
class EntryPage:
    """Entries in key order, all at one revision."""

    entries: tuple[Entry, ...]
    next_page_token: str
    """Asks for the page that follows; "" = this is the last."""
    revision: int


@dataclass(frozen=True, slots=True)
class EnvironmentPage:
    """Child environments in path order, all at one revision."""

    environments: tuple[EnvironmentInfo, ...]
    next_page_token: str
    revision: int


@dataclass(frozen=True, slots=True)
class StreamPage:
    """Items of a stream in order."""

    items: tuple[StreamItem, ...]
    first_kept: int
    next_sequence: int
    """Number of the next item to be appended."""


@dataclass(frozen=True, slots=True)
class PastValue:
    """One change of an entry."""

    revision: int
    type: EventType
    value: Value
    """The value after it, or the appended item; None after a deletion."""
    version: int
    actor: str
    cause: str
    producer: str
    wall_time_ns: int
    position: tuple[float, ...] = ()
    """ENTRY_MOVED: where it was after it; () = nowhere."""


@dataclass(frozen=True, slots=True)
class PastPage:
    """What happened to an entry, oldest first."""

    values: tuple[PastValue, ...]
    first_retained_revision: int
    """The log reaches back to here: what happened before is not known."""
    next_revision: int
    """Ask again from here for the rest; 0 = there is no more."""


@dataclass(frozen=True, slots=True)
class Written:
    """What a write did."""

    revision: int
    """0 when it is not known: the outcome of an op that had to wait and said no more than "done"."""
    version: int = 0
    """Version after it; 0 after a deletion."""
    value: Value = None
    """New sum of a counter."""
    sequence: int = 0
    """Number of an appended item."""
    changed: bool = True
    """False when `if_absent` or `if_present` made it a success without an effect."""
    duplicate: bool = False
    """The outcome of an earlier op with the same identity: nothing was executed now."""


@dataclass(frozen=True, slots=True)
class Invoked:
    """What an operation of a behaviour returned."""

    revision: int
    result: Json
    changed: bool
    duplicate: bool = False


@dataclass(frozen=True, slots=True)
class Transacted:
    """What a transaction did: one `Written` a write, in order."""

    revision: int
    written: tuple[Written, ...] = ()
    otherwise: bool = False
    """True when the else branch was taken."""
    duplicate: bool = False


Outcome = (
    Written
    | Invoked
    | Transacted
    | Entry
    | EnvironmentInfo
    | EntryPage
    | EnvironmentPage
    | Aggregates
    | StreamPage
    | PastPage
    | Nearby
    | Way
    | Neighbours
)
"""What an op that succeeded can answer."""


@dataclass(frozen=True, slots=True)
class WorldInfo:
    """A world as its server lists it."""

    name: str
    history: str
    revision: int
    first_retained_revision: int
    environments: int
    entries: int
    storage_bytes: int
    storage_bytes_max: int
    storage_low: bool = False
    """Four fifths of what it may take are in use; at nine tenths writes are refused."""
    restored_from: Origin | None = None
    """What it was copied from, if it began as a copy."""
    open: bool = True
    """Whether it is in the server's memory; one that is not is opened when somebody asks for it."""


@dataclass(frozen=True, slots=True)
class EventFilter:
    """Which events a watch wants. Empty parts do not restrict; the parts given must all match."""

    path_prefix: str = ""
    """This environment and all below it."""
    path_glob: str = ""
    """Over the whole path: `*` stays within a segment, `**` does not."""
    key_glob: str = ""
    types: tuple[EventType, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    actor: str = ""
    exclude_own: bool = False
    """Leave out what this client's own session or producers caused."""
    region: str = ""
    """Only REGION_ENTERED and REGION_LEFT of the region of this name."""
