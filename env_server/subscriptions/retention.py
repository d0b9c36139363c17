"""What the log keeps for the sake of subscriptions, and which of them stay too far behind.

The log keeps everything after the lowest cursor of those that live. A cursor that falls holds the log at once. One that
rises lets go only once that is durable: after a crash it stands where it stood before.
"""

from collections import deque
from typing import Final

from env_server.model.limits import Limits
from env_server.subscriptions.ledger import HeldLog, Ledger
from env_server.subscriptions.lowest import Lowest
from env_server.subscriptions.subscription import Subscription

_MAP_SHARE: Final = 4


class Retention:
    """Holds the log of one world. Costs no work for a subscription whose cursor does not move."""

    def __init__(self, ledger: Ledger, log: HeldLog, bytes_max: int) -> None:
        """At most `bytes_max` of the log are kept for the sake of one."""
        self._ledger = ledger
        self._log = log
        self._bytes_max = bytes_max
        self._cursors: Lowest[Subscription] = Lowest(lambda one: one.cursor)
        self._lapses: Lowest[Subscription] = Lowest(lambda one: one.cursor + one.spec.max_lag)
        self._retained: int | None = None
        #: The group in which a cursor changed last.
        self._changed_in = 0
        #: A group, and what the log has to keep once that is durable.
        self._next: tuple[int, int | None] | None = None
        #: Those whose begin the log may just have let go: the group after which that can be seen.
        self._begun: deque[tuple[int, Subscription]] = deque()

    def hold(self, subscription: Subscription) -> None:
        """One lives from now on, or goes on somewhere else."""
        self._cursors.note(subscription)
        self._lapses.note(subscription)
        self._begun.append((self._ledger.group_number, subscription))
        needed = self._find_needed()
        if self._retained is None or (needed is not None and needed < self._retained):
            self._retain(needed)
        self._next = None
        self.moved()

    def release(self, subscription: Subscription) -> None:
        """One lives no more."""
        self._cursors.drop(subscription)
        self._lapses.drop(subscription)
        self.moved()

    def moved(self) -> None:
        """A cursor has risen."""
        self._changed_in = self._ledger.group_number

    def durable(self, number: int) -> None:
        """Everything up to this group is durable."""
        if number >= self._changed_in:
            self._next = None
            self._retain(self._find_needed())
            return
        if self._next is not None and number >= self._next[0]:
            self._retain(self._next[1])
            self._next = None
        if self._next is None:
            self._next = (self._ledger.group_number, self._find_needed())

    def find_oversized(self) -> Subscription | None:
        """The one that the log is kept for, when it has become larger than may be kept for one."""
        revision, size_bytes = self._log.held
        if size_bytes <= self._bytes_max:
            return None
        lowest = self._cursors.find()
        # What was held may be on its way out: then it is not yet known how large the rest is.
        return lowest[1] if lowest is not None and lowest[0] + 1 == revision else None

    def find_lapsed(self, number: int) -> Subscription | None:
        """One that stays behind by more than it may, or whose next event is no longer in the log.

        `number` is the last durable group.
        """
        behind = self._lapses.find(below=self._ledger.revision)
        if behind is not None:
            return behind[1]
        while self._begun and self._begun[0][0] <= number:
            subscription = self._begun.popleft()[1]
            if not subscription.is_lapsed and subscription.cursor + 1 < self._log.first_revision:
                return subscription
        return None

    def _find_needed(self) -> int | None:
        lowest = self._cursors.find()
        return None if lowest is None else lowest[0] + 1

    def _retain(self, revision: int | None) -> None:
        if revision != self._retained:
            self._retained = revision
            self._log.retain(revision)


def find_bytes_max(limits: Limits) -> int:
    """Bytes of the log that may be kept for the sake of one subscription."""
    return min(limits.subscription_lag_bytes_max, limits.map_bytes // _MAP_SHARE)
