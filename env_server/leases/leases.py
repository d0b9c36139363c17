"""Leases: granted for a time, kept alive, ended. Deadlines are in memory only: a restart gives each its full time.

A lease whose time has passed is due; it ends when somebody ends it, in the order of the world, and until then it can
still be kept alive. So a keep-alive that is answered as kept is never followed by an end that was decided before it.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple

from env_server.leases.lease_time import LeaseTime
from env_server.model.errors import Exhausted, InvalidRequest, NotFound, Reason, WrongState
from env_server.model.limits import Limits
from env_server.model.names import check_count
from env_server.model.ports import Clock

_ENDED: Final = b'{"ended":true}'
_STALE_MIN: Final = 1024
"""Deadlines of leases that were revoked stay in their order until so many, and half of all, are of that kind."""


@dataclass(slots=True)
class Lease:
    """A living lease. `deadline_ns` is in lease time."""

    id: int
    ttl_ms: int
    holder: str
    deadline_ns: int


class LeaseState(NamedTuple):
    """A living lease as it is told."""

    id: int
    ttl_ms: int
    holder: str
    remaining_ms: int
    entries: int
    """Entries and environments under it."""


class Kept(NamedTuple):
    """What came of a request to keep leases alive."""

    kept: list[int]
    ended: list[int]
    """Those that have ended or never were."""


class Leases:
    """The leases of one world. `due` is called, at a tick, while there are leases whose time has passed."""

    def __init__(self, clock: Clock, limits: Limits, due: Callable[[], None]) -> None:
        self._limits = limits
        self._time = LeaseTime(clock, limits, self._tick)
        self._due = due
        self._living: dict[int, Lease] = {}
        #: One (deadline, id) a lease; a lease that was kept alive since has a later deadline than its place here says.
        self._deadlines: list[tuple[int, int]] = []
        #: The newest leases among those that have ended: known from those that never were.
        self._ended: set[int] = set()
        self._ended_by_id: list[int] = []
        #: Up to this id all that do not live count as ended.
        self._ended_through = 0

    def __len__(self) -> int:
        return len(self._living)

    def load(self, facts: Mapping[str, bytes]) -> None:
        """Takes over what was stored; each lease has its full time."""
        now_ns = self._time.now_ns()
        for key, value in facts.items():
            form, id_ = json.loads(value), int(key)
            if "ended" in form:
                self._ended.add(id_)
            else:
                ttl_ms = form["ttl_ms"]
                self._living[id_] = Lease(id_, ttl_ms, form["holder"], now_ns + ttl_ms * 1_000_000)
        self._ended_by_id = sorted(self._ended)
        if len(self._ended) >= self._limits.leases_remembered_max:
            self._ended_through = self._ended_by_id[0]
        self._deadlines = [(lease.deadline_ns, lease.id) for lease in self._living.values()]
        heapify(self._deadlines)
        if self._living:
            self._time.begin()

    def check_grant(self, ttl_ms: int, holder: str) -> None:
        """Accepts a lease to be granted.

        Raises:
            InvalidRequest: INVALID_FIELD.
            LimitExceeded: lease_holder_bytes_max.
            Exhausted: LEASE_QUOTA.
        """
        limits = self._limits
        if not limits.lease_ttl_ms_min <= ttl_ms <= limits.lease_ttl_ms_max:
            problem = f"must be {limits.lease_ttl_ms_min} to {limits.lease_ttl_ms_max}"
            raise InvalidRequest(Reason.INVALID_FIELD, "ttl_ms", problem)
        check_count(len(holder.encode("utf-8", "surrogatepass")), "lease_holder_bytes_max", limits)
        if len(self._living) >= limits.leases_max:
            problem = f"{len(self._living)} leases live, as many as may"
            raise Exhausted.of(Reason.LEASE_QUOTA, "leases_max", limits.leases_max, problem, limits.retry_delay_ms)

    def check(self, id_: int) -> None:
        """Accepts a living lease.

        Raises:
            WrongState: LEASE_EXPIRED: it has ended.
            NotFound: LEASE_NOT_FOUND: it never was.
        """
        if id_ in self._living:
            return
        if 0 < id_ <= self._ended_through or id_ in self._ended:
            raise WrongState(Reason.LEASE_EXPIRED, f"lease {id_} has ended", metadata={"lease": str(id_)})
        raise NotFound(Reason.LEASE_NOT_FOUND, lease=str(id_))

    def lives(self, id_: int) -> bool:
        """Whether the lease was granted and has not ended."""
        return id_ in self._living

    def grant(self, id_: int, ttl_ms: int, holder: str) -> bytes:
        """A lease lives from now on; returns its fact."""
        deadline_ns = self._time.now_ns() + ttl_ms * 1_000_000
        self._living[id_] = Lease(id_, ttl_ms, holder, deadline_ns)
        heappush(self._deadlines, (deadline_ns, id_))
        self._time.begin()
        return json.dumps({"ttl_ms": ttl_ms, "holder": holder}).encode()

    def take_back(self, id_: int) -> None:
        """Undoes `grant`."""
        del self._living[id_]

    def end(self, id_: int) -> tuple[Lease, list[tuple[int, bytes | None]]]:
        """A living lease lives no more; returns it, and the facts of it and of what is forgotten for it, by id."""
        lease = self._living.pop(id_)
        facts: list[tuple[int, bytes | None]] = [(id_, _ENDED)]
        self._ended.add(id_)
        heappush(self._ended_by_id, id_)
        if len(self._ended) > self._limits.leases_remembered_max:
            oldest = heappop(self._ended_by_id)
            self._ended.discard(oldest)
            self._ended_through = max(self._ended_through, oldest)
            facts.append((oldest, None))
        if len(self._deadlines) > _STALE_MIN + 2 * len(self._living):
            self._deadlines = [(other.deadline_ns, other.id) for other in self._living.values()]
            heapify(self._deadlines)
        return lease, facts

    def revive(self, lease: Lease) -> None:
        """Undoes `end`, but for what was forgotten."""
        self._living[lease.id] = lease
        if lease.id in self._ended:
            self._ended.discard(lease.id)
            self._ended_by_id.remove(lease.id)
            heapify(self._ended_by_id)
        heappush(self._deadlines, (lease.deadline_ns, lease.id))

    def keep(self, ids: Iterable[int]) -> Kept:
        """Gives each living lease its full time again."""
        now_ns, living = self._time.now_ns(), self._living
        kept, ended = [], []
        for id_ in ids:
            lease = living.get(id_)
            if lease is None:
                ended.append(id_)
            else:
                lease.deadline_ns = now_ns + lease.ttl_ms * 1_000_000
                kept.append(id_)
        return Kept(kept, ended)

    def find_due(self, count_max: int) -> list[int]:
        """At most so many living leases whose time has passed. Whoever asks ends them all."""
        now_ns, living, deadlines = self._time.now_ns(), self._living, self._deadlines
        found: dict[int, None] = {}
        while deadlines and deadlines[0][0] <= now_ns and len(found) < count_max:
            _, id_ = heappop(deadlines)
            lease = living.get(id_)
            if lease is None:  # ended before its time
                continue
            if lease.deadline_ns > now_ns:
                heappush(deadlines, (lease.deadline_ns, id_))
            else:
                found[id_] = None
        return list(found)

    @property
    def any_due(self) -> bool:
        """Whether the time of some lease may have passed."""
        return bool(self._deadlines) and self._deadlines[0][0] <= self._time.now_ns()

    def states(self, count: Callable[[int], int], after: int = 0) -> Iterator[LeaseState]:
        """Leases that live now with ids above `after`, by id, but for those that have ended when it is their turn;
        `count` knows what lives under each.
        """
        for id_ in sorted(id_ for id_ in self._living if id_ > after):
            lease = self._living.get(id_)
            if lease is not None:
                remaining_ms = max(lease.deadline_ns - self._time.now_ns(), 0) // 1_000_000
                yield LeaseState(id_, lease.ttl_ms, lease.holder, remaining_ms, count(id_))

    def stop(self) -> None:
        """No lease is found due by itself any more."""
        self._time.end()

    def _tick(self) -> None:
        if not self._living:
            self._deadlines.clear()
            self._time.end()
        elif self.any_due:
            self._due()
