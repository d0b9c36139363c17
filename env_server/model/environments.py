"""Environments: what each declares. Declarations are immutable and replaced as a whole."""

from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import NamedTuple

from env_server.model.spaces import Space
from env_server.model.timelines import ClockDeclaration
from env_server.model.values import Json

BASIC = "basic"
EMPTY_CONFIG = Json(b"{}")


class Function(IntEnum):
    """Aggregate functions; the numbers are those of the contract."""

    COUNT = 1
    SUM = 2
    MEAN = 3
    MIN = 4
    MAX = 5
    HISTOGRAM = 6


class Scope(IntEnum):
    """What an aggregate runs over; the numbers are those of the contract."""

    ENTRIES = 1
    CHILDREN = 2


class Access(IntEnum):
    """What a group may do; the numbers are those of the contract."""

    READ = 1
    WRITE = 2


class Grant(NamedTuple):
    """What a group, or with "*" every group, may do in an environment and all below it."""

    group: str
    access: Access


class GateCause(IntEnum):
    """Why a gate opened; the numbers are those of the contract."""

    UNSPECIFIED = 0
    COUNT = 1
    DEADLINE = 2
    OPERATION = 3
    MEMBERS = 4


@dataclass(frozen=True, slots=True)
class Aggregate:
    """A declared aggregate. `field` holds the tokens of its JSON pointer, empty = the value itself."""

    name: str
    function: Function
    scope: Scope = Scope.ENTRIES
    in_generation: bool = False
    bounds: tuple[float, ...] = ()
    field: tuple[str, ...] = ()

    @property
    def pointer(self) -> str:
        """`field` as RFC 6901 writes it."""
        return "".join("/" + token.replace("~", "~0").replace("/", "~1") for token in self.field)


class AggregateValue(NamedTuple):
    """An aggregate at one revision; `value` is None without numbers or when the sum exceeds a double."""

    name: str
    function: Function
    entries: int
    numbers: int
    value: int | float | None
    buckets: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Gate:
    """A declared gate and where it stands.

    generation 0: none begun yet. A generation collects from `begin_revision` until `opened`; the entries written
    after `begin_revision` are its reports. `deadline_ms` counts from its begin.
    """

    name: str
    count_target: int = 0
    deadline_ms: int = 0
    generation: int = 0
    opened: bool = False
    cause: GateCause = GateCause.UNSPECIFIED
    begin_revision: int = 0
    open_revision: int = 0
    members_path: str = ""
    """Environment whose live members must all report; "" = members do not count."""

    @property
    def collecting(self) -> bool:
        """Whether reports that name the current generation are accepted."""
        return self.generation > 0 and not self.opened

    def begin(self, revision: int, count_target: int | None, deadline_ms: int | None) -> "Gate":
        """The gate at the begin of its next generation."""
        return replace(
            self,
            count_target=self.count_target if count_target is None else count_target,
            deadline_ms=self.deadline_ms if deadline_ms is None else deadline_ms,
            generation=self.generation + 1,
            opened=False,
            cause=GateCause.UNSPECIFIED,
            begin_revision=revision,
            open_revision=0,
        )

    def open(self, revision: int, cause: GateCause) -> "Gate":
        """The gate once opened in its current generation."""
        return replace(self, opened=True, cause=cause, open_revision=revision)


class GateState(NamedTuple):
    """A gate at one revision with the number of distinct entries written in its generation."""

    gate: Gate
    reported: int


@dataclass(frozen=True, slots=True)
class Declaration:
    """All that an environment declares about itself."""

    kind: str = BASIC
    labels: dict[str, str] = field(default_factory=dict)
    config: Json = EMPTY_CONFIG
    schema: Json | None = None
    aggregates: tuple[Aggregate, ...] = ()
    gates: tuple[Gate, ...] = ()
    grants: tuple[Grant, ...] = ()
    lease: int = 0
    """Lease that the environment lives under; 0 = none."""
    clock: ClockDeclaration | None = None
    space: Space | None = None


class EnvironmentState(NamedTuple):
    """An environment as seen at one revision."""

    path: str
    number: int
    declaration: Declaration
    version: int
    created: int
    modified: int
    entries: int
    children: int
    gates: tuple[GateState, ...]
