"""Entries: immutable, replaced as a whole by each change, so that holding one is holding a snapshot of it."""

from enum import IntEnum
from typing import Final, NamedTuple

from env_server.model.spaces import Position
from env_server.model.values import Json, Nothing


class EntryKind(IntEnum):
    """What an entry is; the numbers are those of the contract."""

    VALUE = 1
    COUNTER = 2
    STREAM = 3
    MEMBER = 4


# Plain ints for the hot path: comparing an IntEnum member costs more than the comparison.
VALUE: Final = 1
COUNTER: Final = 2
STREAM: Final = 3
MEMBER: Final = 4


def name_of_kind(kind: int) -> str:
    """A kind in messages and metadata."""
    return EntryKind(kind).name.lower()


class StreamEnds(NamedTuple):
    """The state of a stream apart from its items."""

    first: int
    """Sequence number of the oldest item kept; equal to `next` when there is none."""
    next: int
    """Sequence number that the next item will get; the first item has 1."""
    items_max: int


class StreamItem(NamedTuple):
    """One item of a stream."""

    sequence: int
    value: None | bool | int | float | str | bytes | Json
    revision: int


class Entry(NamedTuple):
    """An entry after one change."""

    value: None | bool | int | float | str | bytes | Json | StreamEnds | Nothing
    """The value, a counter's sum, or a stream's ends."""
    version: int
    """Changes since it was created; 1 right after."""
    created: int
    """Revision of its first change."""
    modified: int
    """Revision of its last change."""
    kind: int
    """VALUE, COUNTER, STREAM or MEMBER."""
    lease: int = 0
    """Lease that it lives under; 0 = none."""
    position: Position | None = None
    """Where it is in the space of its environment; None = nowhere."""
    written: int = 0
    """Revision of the last change but moves, where a move came after it; 0 = `modified`: see `reported`."""

    @property
    def reported(self) -> int:
        """Revision of the last change but moves. It is what gates go by, and whoever asks if there is a new value."""
        return self.written or self.modified
