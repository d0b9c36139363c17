"""Borders: the regions and proximities of one environment, ready to tell what a move crosses.

A crossing is an edge, not a state: what was inside before and after a move is told nothing of. The order of what is
told follows from the names alone, never from how an index keeps its entries.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from env_server.model.changes import EventType
from env_server.model.errors import Exhausted, LimitExceeded, Reason
from env_server.model.globs import TextTest, compile_key_glob
from env_server.model.limits import Limits
from env_server.model.ports import Areas, Near, SpaceIndex
from env_server.model.spaces import LOOKS_FREE, Position, Proximity, Space, region_document
from env_server.model.values import Json

_REGION_ENTERED: Final = int(EventType.REGION_ENTERED)
_REGION_LEFT: Final = int(EventType.REGION_LEFT)
_PROXIMITY_ENTERED: Final = int(EventType.PROXIMITY_ENTERED)
_PROXIMITY_LEFT: Final = int(EventType.PROXIMITY_LEFT)
_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode
_ALL: Final = 1 << 62
_NOBODY: Final[list[Near]] = []
_NO_AREAS: Final[Sequence[int]] = ()
_REGIONS_FREE: Final = 16
"""Regions that a move crosses without its being meant to be much."""
_LOOKS_A_REGION: Final = 4
"""What it takes to tell of one more is about what so many looks take."""

Crossing = tuple[int, str, Json]
"""Type of the event, key, document."""


Count = Callable[[int], None]
"""Told how much was looked at, also before something is refused."""


class Borders:
    """Those of one environment. They stay as they are, as the declaration does that they are made from."""

    __slots__ = ("_documents", "_proximities", "areas", "is_empty")

    def __init__(self, space: Space, areas: Areas) -> None:
        """`areas`: those of its regions.

        Raises:
            InvalidRequest: INVALID_FIELD: a glob is malformed.
        """
        self.areas = areas
        self._documents = [region_document(region.name) for region in space.regions]
        self._proximities = [_Reach(proximity) for proximity in space.proximities]
        self.is_empty = not self._documents and not self._proximities

    @property
    def looks(self) -> bool:
        """Whether who crosses them looks at others, at what the regions cover, or may cross very many regions."""
        return bool(self._proximities) or not self.areas.is_ready or len(self._documents) > _REGIONS_FREE

    def cross(
        self, index: SpaceIndex, key: str, before: Position | None, after: Position | None, limits: Limits, count: Count
    ) -> list[Crossing]:
        """What an entry crosses that goes from `before` to `after`, in the order in which it is told; None = nowhere.

        By the names of regions, then by those of proximities, there by the other one's key; of a pair the one that
        moves is told first. `count` is told what is looked at, or crossed, beyond what is in the price of a move.

        Raises:
            Exhausted: RATE_LIMITED: it comes into a crowd of which more than `move_looks_max` would have to be looked
                at. It can always leave one.
        """
        told: list[Crossing] = []
        if self._documents:
            areas = self.areas
            looked = areas.looked
            was = areas.at(before) if before is not None else _NO_AREAS
            now = areas.at(after) if after is not None else _NO_AREAS
            if areas.looked != looked:
                count(areas.looked - looked)
            if was != now:
                before_it = {*was}
                told += [
                    (_REGION_LEFT if number in before_it else _REGION_ENTERED, key, self._documents[number])
                    for number in sorted(before_it.symmetric_difference(now))
                ]
                if len(told) > _REGIONS_FREE:
                    count(_LOOKS_A_REGION * (len(told) - _REGIONS_FREE))
        left = limits.move_looks_max
        for reach in self._proximities:
            try:
                left -= reach.cross(index, key, before, after, left, told, count)
            except LimitExceeded:
                raise _too_crowded(reach.name, limits.move_looks_max) from None
        return told


class _Reach:
    """One proximity."""

    __slots__ = ("_accept", "_accept_other", "_distance", "_prefix", "name")

    def __init__(self, proximity: Proximity) -> None:
        self.name = proximity.name
        self._distance = proximity.distance
        self._prefix = f'{{"proximity":{_encode(proximity.name)},"other":'
        self._accept = compile_key_glob(proximity.key_glob, "proximities.key_glob")
        self._accept_other = compile_key_glob(proximity.other_key_glob, "proximities.other_key_glob")

    def cross(
        self,
        index: SpaceIndex,
        key: str,
        before: Position | None,
        after: Position | None,
        looks_max: int,
        told: list[Crossing],
        count: Count,
    ) -> int:
        """Adds what is told; returns how much was looked at where the entry goes to.

        Raises:
            LimitExceeded: that is more than `looks_max`.
        """
        is_one, is_other = _matches(self._accept, key), _matches(self._accept_other, key)
        if not is_one and not is_other:
            return 0
        was = now = _NOBODY
        looked = 0
        if before is not None:
            was = self._near(index, before, _ALL, count)
        if after is not None:
            now = self._near(index, after, looks_max, count)
            looked = index.looked
        mine = self._document(key)
        changed = {other for _, other in was}.symmetric_difference(other for _, other in now)
        changed.discard(key)
        if changed:
            entered = {other for _, other in now}
            for other in sorted(self._matching(changed, is_one, is_other)):
                type_ = _PROXIMITY_ENTERED if other in entered else _PROXIMITY_LEFT
                told.append((type_, key, self._document(other)))
                told.append((type_, other, mine))
        return looked

    def _near(self, index: SpaceIndex, position: Position, looks_max: int, count: Count) -> list[Near]:
        usual, index.looks_max = index.looks_max, looks_max
        near = _NOBODY
        try:
            near = index.within(position, self._distance)
            return near
        finally:
            index.looks_max = usual
            count(len(near) + max(index.looked - LOOKS_FREE, 0))

    def _matching(self, others: Iterable[str], is_one: bool, is_other: bool) -> Iterator[str]:
        """Those that make a pair with a key that matches as one, or as the other of the two."""
        accept, accept_other = self._accept, self._accept_other
        return (
            other
            for other in others
            if (is_one and _matches(accept_other, other)) or (is_other and _matches(accept, other))
        )

    def _document(self, other: str) -> Json:
        return Json(f"{self._prefix}{_encode(other)}}}".encode())


def _too_crowded(proximity: str, looks_max: int) -> Exhausted:
    problem = f"it is so crowded there that the move would look at more than move_looks_max = {looks_max}"
    return Exhausted.of(Reason.RATE_LIMITED, "move_looks_max", looks_max, problem, proximity=proximity)


def _matches(accept: TextTest | None, key: str) -> bool:
    return accept is None or bool(accept(key))
