"""What a watch is asked for and what it gives, as plain data."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from env_server.model.changes import Changes, Place
from env_server.model.entries import Entry


@dataclass(frozen=True, slots=True)
class Filter:
    """Which events a watch wants; empty parts do not restrict, given parts must all match."""

    path_prefix: str = ""
    """This environment and all below it."""
    path_glob: str = ""
    """`*` stays within a segment, `**` alone between slashes stands for any number of segments."""
    key_glob: str = ""
    types: frozenset[int] = frozenset()
    labels: dict[str, str] = field(default_factory=dict)
    actor: str = ""
    excluded_producer: str = ""
    """Leave out changes of this producer, and what the session of this name has sent: a client's own."""
    region: str = ""
    """Only crossings of the border of the region of this name."""


@dataclass(frozen=True, slots=True)
class WatchSpec:
    """Where a watch begins and what it wants.

    from_revision 0 = now, <= head = replay inclusive, above it = wait. `initial_state` sends the matching entries
    first and excludes `from_revision`.
    """

    filter: Filter
    from_revision: int = 0
    initial_state: bool = False
    conflate: bool = False
    group: str = ""
    """Path of the group whose view it takes, as of its start; "" = it sees everything."""
    also: tuple[Filter, ...] = ()
    """What one of these lets through is told, too; excludes `initial_state`."""


class EntryMatcher(Protocol):
    """The parts of a filter that an entry of the present state can be tested by: path, labels and key."""

    @property
    def root(self) -> str:
        """The environment that every match equals or lies below."""

    @property
    def key(self) -> str:
        """The only key that matches; "" = several may."""

    def matches_place(self, place: Place) -> bool:
        """Whether entries of this environment may match."""

    def matches_key(self, key: str) -> bool:
        """Whether entries with this key may match."""


class Snapshot(NamedTuple):
    """Entries at one revision. `rows` gives that state whenever it is read, whatever was applied since.

    It may leave out what the matcher refuses, but need not.
    """

    revision: int
    """Of the applied state; may lie above the durable one."""
    rows: Iterator[tuple[Place, str, Entry]]


class Delivery(NamedTuple):
    """One step of a watch: rows of one group (or of the initial state), whole revisions only.

    `rows` None = all rows of `changes`. Every matching event up to `through_revision` has been delivered with this
    step; 0 until the initial state is complete, since nothing can resume from the middle of it. `synced_revision` > 0
    ends the initial state. `changes` None = only a mark.
    """

    changes: Changes | None
    rows: list[int] | None
    through_revision: int
    synced_revision: int = 0
    conflated: bool = False
