"""Holdings: what lives under each lease. Derived from the entries and environments, and found again at a recovery.

Kept by environment number, so that an environment that is deleted takes along all that is in it without a look at its
entries: what stands here under the number of none that exists is no more. It is dropped when it makes up half.
"""

from collections.abc import Iterator
from typing import Protocol

from env_server.model.changes import Extra
from env_server.model.errors import NotFound, Reason
from env_server.state_tree.nodes import Node, Nodes


class LivingLeases(Protocol):
    """The leases that something may be put under."""

    def check(self, id_: int) -> None:
        """Accepts a living lease.

        Raises:
            WrongState: LEASE_EXPIRED.
            NotFound: LEASE_NOT_FOUND.
        """

    def lives(self, id_: int) -> bool:
        """Whether the lease was granted and has not ended."""


class NoLeases:
    """A world without leases."""

    def check(self, id_: int) -> None:
        """See LivingLeases."""
        raise NotFound(Reason.LEASE_NOT_FOUND, lease=str(id_))

    def lives(self, id_: int) -> bool:
        """See LivingLeases."""
        return False


class _Holding:
    """What lives under one lease: keys by environment number, "" for the environment itself."""

    __slots__ = ("by_number", "numbers_max")

    def __init__(self) -> None:
        self.by_number: dict[int, dict[str, None]] = {}
        #: Beyond so many environments those that are gone are dropped.
        self.numbers_max = 64


class Holdings:
    """The holdings of all leases of one tree."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._by_lease: dict[int, _Holding] = {}
        self._extra = Extra()
        #: Set by whoever keeps the leases.
        self.leases: LivingLeases = NoLeases()

    def extra_of(self, lease: int) -> Extra:
        """What a row tells that registered something under the lease; one object for many rows."""
        if self._extra.lease != lease:
            self._extra = Extra(lease=lease)
        return self._extra

    def add(self, lease: int, node: Node, key: str, *, may_forget: bool = True) -> None:
        """The entry, or with "" the environment, lives under the lease. `may_forget` unless something may be undone."""
        holding = self._by_lease.get(lease)
        if holding is None:
            holding = self._by_lease[lease] = _Holding()
        keys = holding.by_number.get(node.number)
        if keys is None:
            keys = holding.by_number[node.number] = {}
            if may_forget and len(holding.by_number) > holding.numbers_max:
                self._forget_gone(holding)
        keys[key] = None

    def discard(self, lease: int, node: Node, key: str) -> None:
        """It does so no more."""
        holding = self._by_lease[lease]
        keys = holding.by_number[node.number]
        del keys[key]
        if not keys:
            del holding.by_number[node.number]
            if not holding.by_number:
                del self._by_lease[lease]

    def leases_with_any(self) -> list[int]:
        """Leases under which something lives, or did in an environment that is gone."""
        return list(self._by_lease)

    def holds(self, lease: int) -> bool:
        """Whether something lives under the lease, or did in an environment that is gone."""
        return lease in self._by_lease

    def of(self, lease: int) -> Iterator[tuple[Node, dict[str, None]]]:
        """The environments in which something lives under the lease, and the keys there; drops what is gone.

        The dicts are those of the holding: copy the keys before anything is deleted.
        """
        holding = self._by_lease.get(lease)
        if holding is None:
            return
        self._forget_gone(holding)
        if not holding.by_number:
            del self._by_lease[lease]
            return
        for number, keys in list(holding.by_number.items()):
            node = self._nodes.by_number.get(number)
            if node is not None:
                yield node, keys

    def count(self, lease: int) -> int:
        """Entries, members and environments that live under the lease."""
        holding = self._by_lease.get(lease)
        if holding is None:
            return 0
        exists = self._nodes.by_number
        return sum(len(keys) for number, keys in holding.by_number.items() if number in exists)

    def _forget_gone(self, holding: _Holding) -> None:
        exists = self._nodes.by_number
        for number in [number for number in holding.by_number if number not in exists]:
            del holding.by_number[number]
        holding.numbers_max = max(64, 2 * len(holding.by_number))
