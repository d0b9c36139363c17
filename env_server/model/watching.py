"""What a watch is asked for and what it gives, as plain data."""

from dataclasses import dataclass, field
from typing import NamedTuple

from env_server.model.changes import Changes


@dataclass(frozen=True, slots=True)
class Filter:
    """Which events a watch wants; empty parts do not restrict, given parts must all match."""

    path_prefix: str = ""
    """This environment and all below it."""
    path_glob: str = ""
    """`*` stays within a segment, `**` does not."""
    key_glob: str = ""
    types: frozenset[int] = frozenset()
    labels: dict[str, str] = field(default_factory=dict)
    actor: str = ""
    excluded_producer: str = ""
    """Leave out changes of this producer (a client's own)."""


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


class Delivery(NamedTuple):
    """One step of a watch: rows of one group (or of the initial state), whole revisions only.

    `rows` None = all rows of `changes`. Every matching event up to `through_revision` has been delivered with this
    step. `synced_revision` > 0 ends the initial state. `changes` None = only a mark.
    """

    changes: Changes | None
    rows: list[int] | None
    through_revision: int
    synced_revision: int = 0
    conflated: bool = False
