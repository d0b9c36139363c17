"""Operations: what a request asks, as plain data. An op is (path, key, code, argument); some need no path or key."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

from env_server.model.environments import Aggregate, Declaration, Gate, Grant
from env_server.model.spaces import Box, Position, Proximity, Region, Space
from env_server.model.timelines import ClockDeclaration, MissedTicks
from env_server.model.values import NOTHING, Json, Nothing, Value


class Code(IntEnum):
    """What an op does; beside it the type of its argument."""

    SET = 1  # Value
    ADD = 2  # int | float
    MERGE = 3  # Json
    APPEND = 4  # Value
    REGISTER_ENTRY = 5  # RegisterEntry
    DELETE_ENTRY = 6  # Delete
    MOVE = 7  # Position
    PLACE = 8  # Placed
    REGISTER_ENVIRONMENT = 10  # RegisterEnvironment
    UPDATE_ENVIRONMENT = 11  # EnvironmentUpdate
    DELETE_ENVIRONMENT = 12  # Delete
    QUERY = 13  # Get | ListEntries | ListChildren | ReadAggregates | ReadStream | ReadPast | Nearby | Distance | ...
    INVOKE = 14  # Invoke
    TRANSACT = 15  # Transact
    REFUSED = 16  # WorldError: the request itself is at fault; found while it was read from the wire
    SET_TIMER = 17  # SetTimer; the key is its name
    CANCEL_TIMER = 18  # Delete
    CONTROL_CLOCK = 19  # ControlClock
    EMIT = 20  # Json: an event of a behaviour; staged only
    ACKNOWLEDGE = 21  # Acknowledge
    GRANT_LEASE = 22  # GrantLease
    REVOKE_LEASE = 23  # RevokeLease
    CREATE_SUBSCRIPTION = 24  # CreateSubscription
    SEEK_SUBSCRIPTION = 25  # SeekSubscription
    DELETE_SUBSCRIPTION = 26  # DeleteSubscription


# Plain ints for the hot path.
SET: Final = 1
ADD: Final = 2


class Test(IntEnum):
    """Kinds of preconditions."""

    EXISTS = 1
    ABSENT = 2
    VERSION = 3
    VALUE = 4
    GATE_GENERATION = 5
    LEASE_OWNER = 6
    CREATED_REVISION = 7


class Precondition(NamedTuple):
    """A condition on the state that an op meets; empty `path` and `key` mean those of the op."""

    test: Test
    operand: Value | Nothing = NOTHING
    path: str = ""
    key: str = ""


@dataclass(frozen=True, slots=True)
class RegisterEntry:
    """Create an entry. `value` NOTHING: null for a value, 0 for a counter."""

    kind: int
    value: Value | Nothing = NOTHING
    stream_items_max: int = 0
    if_absent: bool = False
    lease: int = 0
    position: Position | None = None


class Placed(NamedTuple):
    """A value, and where its entry is: both are set, the entry created when it is absent."""

    value: Value
    position: Position


@dataclass(frozen=True, slots=True)
class RegisterEnvironment:
    """Create an environment."""

    declaration: Declaration
    if_absent: bool = False


@dataclass(frozen=True, slots=True)
class BeginGeneration:
    """Begin the next generation of a gate; None leaves a part as it is."""

    gate: str
    count_target: int | None = None
    deadline_ms: int | None = None


@dataclass(frozen=True, slots=True)
class OpenGate:
    """Open a gate that is collecting `generation`."""

    gate: str
    generation: int


@dataclass(frozen=True, slots=True)
class EnvironmentUpdate:
    """Change declarations; what is empty or None stays."""

    set_labels: tuple[tuple[str, str], ...] = ()
    remove_labels: tuple[str, ...] = ()
    merge_config: Json | None = None
    set_aggregates: tuple[Aggregate, ...] = ()
    remove_aggregates: tuple[str, ...] = ()
    set_gates: tuple[Gate, ...] = ()
    remove_gates: tuple[str, ...] = ()
    begin: BeginGeneration | None = None
    open: OpenGate | None = None
    set_grants: tuple[Grant, ...] = ()
    remove_grants: tuple[str, ...] = ()
    clock: ClockDeclaration | None = None
    """Only where there is none."""
    space: Space | None = None
    """Only where there is none."""
    set_regions: tuple[Region, ...] = ()
    remove_regions: tuple[str, ...] = ()
    set_proximities: tuple[Proximity, ...] = ()
    remove_proximities: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete an entry or an environment."""

    recursive: bool = False
    if_present: bool = False


@dataclass(frozen=True, slots=True)
class Get:
    """The entry, or the environment when the key is empty; `inherit` falls through to the nearest ancestor's entry."""

    inherit: bool = False


@dataclass(frozen=True, slots=True)
class ListEntries:
    """A page of entries; `page_size` 0 = the default."""

    prefix: str = ""
    page_size: int = 0
    page_token: str = ""


@dataclass(frozen=True, slots=True)
class ListChildren:
    """A page of child environments."""

    prefix: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    page_size: int = 0
    page_token: str = ""


@dataclass(frozen=True, slots=True)
class ReadAggregates:
    """Aggregates by name, all when empty, and the gates."""

    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReadStream:
    """Items of a stream; `from_sequence` 0 = the oldest kept, `limit` 0 = the default."""

    from_sequence: int = 0
    limit: int = 0


@dataclass(frozen=True, slots=True)
class ReadPast:
    """Changes of an entry from the retained log, both ends inclusive; 0 = the oldest retained, the current one."""

    from_revision: int = 0
    to_revision: int = 0
    limit: int = 0


@dataclass(frozen=True, slots=True)
class Nearby:
    """Entries near the op's key (itself left out), or near `position`, nearest first, then by key.

    Exactly one of `radius`, `nearest`, `box` and `adjacent` is set; `box` needs neither key nor position.
    """

    position: Position | None = None
    radius: float | None = None
    nearest: int = 0
    box: Box | None = None
    adjacent: bool = False
    """Of a grid or graph: in the cells or nodes next to it, and in its own."""
    hops: bool = False
    """Of a graph: count edges, whatever they weigh."""
    limit: int = 0
    """0 = `page_items_max`."""


@dataclass(frozen=True, slots=True)
class Distance:
    """The shortest distance between two entries, or positions; a graph tells the way too."""

    from_position: Position | None = None
    from_key: str = ""
    to_position: Position | None = None
    to_key: str = ""
    hops: bool = False


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Everybody's neighbours, or those of `keys`; exactly one of `radius`, `nearest` and `adjacent` is set."""

    radius: float | None = None
    nearest: int = 0
    adjacent: bool = False
    keys: tuple[str, ...] = ()
    hops: bool = False


Ask = Get | ListEntries | ListChildren | ReadAggregates | ReadStream | ReadPast | Nearby | Distance | Neighbours
"""What a query can ask for."""


@dataclass(frozen=True, slots=True)
class Query:
    """A read, refused unless the world has reached `min_revision`."""

    ask: Ask
    min_revision: int = 0


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Set, or set anew, a timer on the nearest clock; exactly one of `at_ns` and `after_ns` is not None."""

    at_ns: int | None = None
    after_ns: int | None = None
    every_ns: int = 0
    missed: MissedTicks = MissedTicks.COALESCE
    payload: Json | None = None
    if_absent: bool = False


class ClockAction(IntEnum):
    """What is done to a clock."""

    ADVANCE_BY = 1
    ADVANCE_TO = 2
    STEP = 3
    SKIP_TO = 4
    PAUSE = 5
    RESUME = 6
    SET_RATE = 7


@dataclass(frozen=True, slots=True)
class ControlClock:
    """Control the environment's own clock; `ns` or `rate` is what the action needs."""

    action: ClockAction
    ns: int = 0
    rate: float = 0.0


@dataclass(frozen=True, slots=True)
class Acknowledge:
    """Move a subscription's cursor; `term` is the consumer's."""

    subscription: str
    term: int
    revision: int


@dataclass(frozen=True, slots=True)
class GrantLease:
    """Grant a lease; its id becomes the revision of the grant."""

    ttl_ms: int
    holder: str = ""


@dataclass(frozen=True, slots=True)
class RevokeLease:
    """End a lease now."""

    lease: int


@dataclass(frozen=True, slots=True)
class Write:
    """A write inside a transaction, beside an operation, or staged by a behaviour."""

    path: str
    key: str
    code: Code
    argument: object
    preconditions: tuple[Precondition, ...] = ()


@dataclass(frozen=True, slots=True)
class Invoke:
    """Run an operation of the environment's behaviour."""

    operation: str
    arguments: Json
    companions: tuple[Write, ...] = ()


@dataclass(frozen=True, slots=True)
class Transact:
    """Writes that commit together; `otherwise` when a precondition fails."""

    preconditions: tuple[Precondition, ...] = ()
    writes: tuple[Write, ...] = ()
    otherwise: tuple[Write, ...] = ()
