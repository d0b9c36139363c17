"""Partitions: which events go to whom. Those of one path and key share one, whatever the server and its age."""

from array import array
from collections.abc import Sequence
from typing import Final, cast
from zlib import crc32

from env_server.model.changes import Changes

NOT_MINE: Final = 2**64
"""Floor of a partition of somebody else: no revision lies above it."""
_VIEW: Final = "partition hashes"


def hash_of(path: str, key: str) -> int:
    """The stable hash of an event's place; its partition is this modulo their number."""
    return crc32(key.encode("utf-8", "surrogatepass"), _begin(path))


def select_partitions(changes: Changes, rows: Sequence[int] | None, floors: Sequence[int]) -> list[int] | None:
    """The rows (None = all) above the floor of their partition; None = all rows of the group.

    `floors` has one revision a partition. Hashes are computed once a group, whoever asks.
    """
    hashes, revisions, count = find_hashes(changes), changes.revisions, len(floors)
    picked = range(len(revisions)) if rows is None else rows
    found = [row for row in picked if revisions[row] > floors[hashes[row] % count]]
    return None if len(found) == len(revisions) else found


def find_hashes(changes: Changes) -> "array[int]":
    """The hash of each row's place; found once a group and kept with it, four bytes a row."""
    found = changes.views.get(_VIEW)
    if found is None:
        begun = [_begin(place.path) for place in changes.places]
        found = changes.views[_VIEW] = array(
            "I",
            [
                crc32(key.encode("utf-8", "surrogatepass"), begun[place])
                for key, place in zip(changes.keys, changes.path, strict=True)
            ],
        )
    return cast("array[int]", found)


def _begin(path: str) -> int:
    # A zero byte, which no name contains, between path and key.
    return crc32(path.encode("utf-8", "surrogatepass") + b"\0")
