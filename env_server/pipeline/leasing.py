"""Leases as part of a world: their ops among its effects, what is told of them, and what lives under them."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from env_server.leases.leases import Kept, Leases, LeaseState
from env_server.model.changes import EventType, FactKind
from env_server.model.frames import Written
from env_server.model.names import check_count
from env_server.model.operations import Code, GrantLease, RevokeLease
from env_server.model.values import Json
from env_server.pipeline.frames.effects import Effects
from env_server.pipeline.lease_sweep import LeaseSweep
from env_server.pipeline.parts import Parts


class Leasing:
    """The leases of one world, from their facts on."""

    def __init__(
        self,
        parts: Parts,
        effects: Effects,
        facts: Mapping[str, bytes],
    ) -> None:
        self._tree = tree = parts.tree
        self._commits = parts.commits
        self._limits = limits = parts.limits
        clock = parts.clock
        self._leases = leases = Leases(clock, limits, due=lambda: self._sweep.wake())
        self._sweep = LeaseSweep(tree, leases, parts.own, clock, limits, end=lambda lease: self._end(lease, "expired"))
        leases.load(facts)
        tree.holdings.leases = leases
        effects.serve(Code.GRANT_LEASE, self._grant)
        effects.serve(Code.REVOKE_LEASE, self._revoke)
        self._sweep.find_left_over()

    def keep(self, ids: Sequence[int], answer: Callable[[Kept], None]) -> None:
        """Gives living leases their full time again, at once; `answer` is called when all that it tells is durable.

        Raises:
            LimitExceeded: leases_max.
        """
        check_count(len(ids), "leases_max", self._limits)
        kept = self._leases.keep(ids)
        self._commits.when_seen(lambda: answer(kept))

    def list_living(self, after: int = 0) -> Iterator[LeaseState]:
        """The living leases with ids above `after`, by id, each as it is when it is its turn."""
        return self._leases.states(self._tree.holdings.count, after)

    @property
    def any_living(self) -> bool:
        """Whether a lease lives, or something of an ended one is still to go."""
        return len(self._leases) > 0 or self._sweep.is_under_way

    @property
    def is_clearing(self) -> bool:
        """Whether something of ended leases is still to go."""
        return self._sweep.is_under_way

    def stop(self) -> None:
        """No lease ends by itself any more, and nothing goes with those that have ended."""
        self._leases.stop()
        self._sweep.stop()

    def _grant(self, asked: GrantLease) -> Written:
        leases, id_ = self._leases, self._tree.revision + 1
        leases.check_grant(asked.ttl_ms, asked.holder)
        self._tree.note_fact(FactKind.LEASE, str(id_), leases.grant(id_, asked.ttl_ms, asked.holder))
        if self._tree.journal is not None:
            self._tree.journal.append(lambda: leases.take_back(id_))
        self._tell(EventType.LEASE_GRANTED, id_, holder=asked.holder, ttl_ms=asked.ttl_ms)
        return Written(id_, 0)

    def _revoke(self, asked: RevokeLease) -> Written:
        self._leases.check(asked.lease)
        self._end(asked.lease, "revoked")
        self._sweep.add(asked.lease)
        return Written(self._tree.revision + 1, 0)

    def _end(self, id_: int, why: str) -> None:
        """Ends a living lease as part of the running op."""
        lease, facts = self._leases.end(id_)
        for other, value in facts:
            self._tree.note_fact(FactKind.LEASE, str(other), value)
        if self._tree.journal is not None:
            self._tree.journal.append(lambda: self._leases.revive(lease))
        self._tell(EventType.LEASE_ENDED, id_, holder=lease.holder, ttl_ms=lease.ttl_ms, why=why)

    def _tell(self, type_: EventType, id_: int, **told: str | int) -> None:
        self._tree.row(self._tree.nodes.root, type_, str(id_), Json.of(told), 0)
