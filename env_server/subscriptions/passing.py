"""Cursors that pass over what is for nobody: when nothing matches, there is nothing that a consumer could acknowledge.

Only a consumer that is attached knows what matches: the cursor of a subscription that nobody consumes stays.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from env_server.subscriptions.consumer import Consumer
from env_server.subscriptions.ledger import Ledger
from env_server.subscriptions.subscription import Subscription

_REVISIONS: Final = 10_000
"""So seldom is it looked who may pass by itself: what a restart looks through again is no more than that."""
_CONSUMERS_AT_ONCE: Final = 256
"""In one loop step, roughly."""


class Passing:
    """Moves the cursors of one world's consumers. `move` moves one, with its fact."""

    def __init__(
        self,
        ledger: Ledger,
        subscriptions: Callable[[], Iterable[Subscription]],
        move: Callable[[Subscription, Consumer, int], None],
    ) -> None:
        self._ledger = ledger
        self._subscriptions = subscriptions
        self._move = move
        self._looked_at = ledger.revision
        self._queue: deque[Subscription] = deque()

    def look(self) -> None:
        """After each commit: moves some, when it is time to."""
        if self._ledger.revision - self._looked_at >= _REVISIONS:
            self._looked_at = self._ledger.revision
            self._queue = deque(one for one in self._subscriptions() if one.consumers)
        looked = 0
        while self._queue and looked < _CONSUMERS_AT_ONCE:
            subscription = self._queue.popleft()
            looked += len(subscription.consumers)
            self.move(subscription)

    def move_all(self) -> bool:
        """Moves all that can; whether there were any."""
        moved = [subscription for subscription in self._subscriptions() if self.move(subscription)]
        return bool(moved)

    def move(self, subscription: Subscription) -> bool:
        """Moves the cursors of one subscription, as far as its consumers pass; whether any moved."""
        any_moved = False
        for consumer in subscription.consumers.values():
            revision = consumer.find_passed()
            if revision is not None:
                self._move(subscription, consumer, revision)
                any_moved = True
        return any_moved
