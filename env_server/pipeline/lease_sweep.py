"""The end of leases: what lived under one goes in steps of bounded size, and between them others have their turn.

A step first ends leases whose time has passed, each in a revision of its own, then deletes entries of ended leases,
each revision those of one lease. What a kill leaves undone is found at the recovery and goes then. Keys that
somebody holds wait for their turn like any op; per environment one such wait at a time.
"""

from collections import deque
from collections.abc import Callable
from itertools import islice

from env_server.leases.leases import Leases
from env_server.model.limits import Limits
from env_server.model.operations import Code, Delete
from env_server.model.ports import Clock, Handle
from env_server.pipeline.frames.write_sets import keys_of
from env_server.pipeline.own_changes import OwnChanges
from env_server.state_tree import deletion, entry_writes
from env_server.state_tree.nodes import Node
from env_server.state_tree.tree import Tree


class LeaseSweep:
    """Ends the leases of one world that are due, and clears away after those that have ended.

    `end` writes the end of one lease as part of an op that is under way.
    """

    def __init__(
        self, tree: Tree, leases: Leases, own: OwnChanges, clock: Clock, limits: Limits, end: Callable[[int], None]
    ) -> None:
        self._tree = tree
        self._leases = leases
        self._own = own
        self._clock = clock
        self._limits = limits
        self._end = end
        self._timer: Handle | None = None
        #: Ended leases under which something is left, and environments in which it waits for its keys.
        self._ended: deque[int] = deque()
        self._waiting: set[int] = set()

    @property
    def is_under_way(self) -> bool:
        """Whether something of ended leases is still to go."""
        return self._timer is not None or bool(self._ended or self._waiting)

    def add(self, lease: int) -> None:
        """What lives under an ended lease is to go, in steps that begin soon."""
        if self._tree.holdings.holds(lease):
            self._ended.append(lease)
            self.wake()

    def find_left_over(self) -> None:
        """Adds all leases that do not live and have something under them: after a recovery."""
        for lease in self._tree.holdings.leases_with_any():
            if not self._leases.lives(lease):
                self.add(lease)

    def wake(self) -> None:
        """Steps begin soon, if they are not under way."""
        if self._timer is None:
            self._timer = self._clock.call_later(0.0, self._step)

    def stop(self) -> None:
        """No more steps."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _step(self) -> None:
        self._timer = None
        room = self._limits.lease_sweep_entries_max
        for lease in self._leases.find_due(room):
            self._own.make([], lambda lease=lease: self._expire(lease))  # type: ignore[misc]
            room -= 1
        for _ in range(len(self._ended)):
            if room <= 0:
                break
            lease = self._ended.popleft()
            room -= 1 + self._clear(lease, room)
            if self._tree.holdings.holds(lease):
                self._ended.append(lease)
        if self._ended or self._leases.any_due:
            self._timer = self._clock.call_later(self._limits.lease_sweep_interval_ms / 1000, self._step)

    def _expire(self, lease: int) -> bool:
        self._end(lease)
        if self._tree.holdings.holds(lease):
            self._ended.append(lease)
        return True

    def _clear(self, lease: int, room: int) -> int:
        """Deletes at most `room` entries of an ended lease; returns how many it has looked at."""
        looked, free = 0, []
        for node, keys in self._tree.holdings.of(lease):
            if looked >= room:
                break
            if node.number in self._waiting:
                continue
            if "" in keys:
                self._clear_environment(lease, node)
                looked += 1
                continue
            some = list(islice(keys, room - looked))
            looked += len(some)
            held = self._own.find_held([(node.number, key) for key in some])
            if held:
                self._make(lease, node, held)
                some = [key for key in some if (node.number, key) not in held]
            free += [(node, key) for key in some]
        if free:
            self._own.make([], lambda: self._delete(lease, free), f"lease/{lease}")
        return looked

    def _clear_environment(self, lease: int, node: Node) -> None:
        """Deletes an environment of an ended lease, when all of it is free."""

        def effect() -> bool:
            self._waiting.discard(node.number)
            if self._tree.nodes.by_number.get(node.number) is not node:
                return False
            deletion.delete(self._tree, node.path, Delete(recursive=True))
            return True

        self._waiting.add(node.number)
        self._own.make(keys_of(self._tree, node.path, "", Code.DELETE_ENVIRONMENT), effect, f"lease/{lease}")

    def _make(self, lease: int, node: Node, held: dict[tuple[int, str | None], None]) -> None:
        """Deletes entries whose keys are held, when all of those are free."""
        entries = [(node, key) for _, key in held if key is not None]

        def effect() -> bool:
            self._waiting.discard(node.number)
            return self._delete(lease, entries)

        self._waiting.add(node.number)
        self._own.make(list(held), effect, f"lease/{lease}")

    def _delete(self, lease: int, entries: list[tuple[Node, str]]) -> bool:
        """Deletes those of the entries that are still there under the lease; whether there were any.

        Whoever goes is told to all who are near: of a crowd the rest goes in later steps.
        """
        exists, any_deleted = self._tree.nodes.by_number, False
        looks_max = self._tree.looked + self._limits.move_looks_max
        for node, key in entries:
            if self._tree.looked > looks_max:
                break
            entry = node.entries.get(key)
            if entry is not None and entry.lease == lease and exists.get(node.number) is node:
                entry_writes.expire(self._tree, node, key)
                any_deleted = True
        return any_deleted
