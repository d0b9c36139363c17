"""The model of what happens by itself: leases end, and what lived under them goes; subscriptions keep a cursor.

When a lease ends, and in which steps its entries go, is the world's affair within bounds. The model is told what the
world did, and says whether it may, and whether it did all of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, NamedTuple

from env_server.model.changes import EventType
from env_server.model.errors import Reason
from tests.promises.world_model import Ask, Document, Entry, Model, RefusedError, Said, Told, picture_of_model

CROSSINGS = range(EventType.REGION_ENTERED, EventType.PROXIMITY_LEFT + 1)
NEVER = 1 << 40
"""Id of a lease that never was."""


class Happened(NamedTuple):
    """One row of the log."""

    told: Told
    cause: str


@dataclass
class LivingModel(Model):
    """`revision` and `events` go on with what `absorb` is told."""

    leases: dict[int, int] = field(default_factory=dict)
    """Living ones: id -> time to live in ms."""
    ended: set[int] = field(default_factory=set)
    cursor: int = 0
    """Of the one subscription."""

    def _do(self, ask: Ask) -> Said:
        match ask.verb:
            case "grant":
                told = Document.of({"holder": "", "ttl_ms": ask.value})
                self._tell(EventType.LEASE_GRANTED, "/", str(self.revision + 1), 0, told)
                self.leases[self.revision + 1] = ask.value
                return Said(None, self.revision + 1)
            case "revoke":
                self._check_lease(ask.value)
                self._end(ask.value, "revoked")
                return Said(None, self.revision + 1)
            case "join" | "hold":
                return self._hold(ask, *ask.value)
            case _:
                return super()._do(ask)

    def _hold(self, ask: Ask, lease: int, value: Any) -> Said:
        if ask.path not in self.environments:
            raise RefusedError(Reason.ENVIRONMENT_NOT_FOUND)
        self._check_lease(lease)
        if (ask.path, ask.key) in self.entries:
            raise RefusedError(Reason.ENTRY_EXISTS)
        return self._put(ask, "member" if ask.verb == "join" else "value", None, value, value, lease)

    def _check_lease(self, lease: int) -> None:
        if lease not in self.leases:
            raise RefusedError(Reason.LEASE_EXPIRED if lease in self.ended else Reason.LEASE_NOT_FOUND)

    def _end(self, lease: int, why: str) -> None:
        told = Document.of({"holder": "", "ttl_ms": self.leases.pop(lease), "why": why})
        self.ended.add(lease)
        self._tell(EventType.LEASE_ENDED, "/", str(lease), 0, told)

    @property
    def left_over(self) -> list[Entry]:
        """What still lives under leases that have ended."""
        return [entry for entry in self.entries.values() if entry.lease in self.ended]

    def absorb(self, rows: Iterable[Happened], may_end: dict[int, str], in_revision_max: int) -> None:
        """Takes over what the world did by itself: ends of leases in `may_end`, and what goes with ended ones."""
        for revision, grouped in groupby(rows, key=lambda row: row.told.revision):
            assert revision == self.revision + 1, "revisions are dense"
            group = list(grouped)
            first = group[0]
            if first.told.type == EventType.LEASE_ENDED:
                lease = int(first.told.key)
                assert lease in self.leases
                assert lease in may_end, f"lease {lease} ended before its time"
                self._end(lease, may_end[lease])
                assert [self.events[-1]] == [row.told for row in group]
            else:
                lost = [row for row in group if row.told.type not in CROSSINGS]
                assert len(lost) <= in_revision_max
                for told, cause in lost:
                    self._lose(told, cause)
                assert self.events[-len(group) :] == [row.told for row in group]
            self.revision = revision

    def _lose(self, told: Told, cause: str) -> None:
        entry = self.entries.pop((told.path, told.key))
        assert entry.lease in self.ended, f"{told} lives under no lease that has ended"
        assert cause == f"lease/{entry.lease}"
        event = EventType.MEMBER_EXPIRED if entry.kind == "member" else EventType.ENTRY_DELETED
        self._tell(event, told.path, told.key, entry.version + 1)
        assert self.events[-1] == told
        self._cross(told.path, told.key, entry.position, ())


def picture_of_life(model: LivingModel) -> dict[str, Any]:
    """As picture_of_model, with leases and the cursor."""
    return {**picture_of_model(model), "leases": sorted(model.leases), "cursor": model.cursor}
