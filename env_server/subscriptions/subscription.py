"""One subscription: what it was asked to be, and its cursors."""

from env_server.model.subscriptions import ConsumerState, CreateSubscription, SubscriptionState
from env_server.subscriptions.consumer import Consumer


class Subscription:
    """State of one. Partition p has the cursor `cursors[p]`, which is stored with the share `shares[p]`."""

    __slots__ = ("by_term", "consumers", "created", "cursors", "is_lapsed", "shares", "spec")

    def __init__(self, spec: CreateSubscription, created: int, cursors: list[int], is_lapsed: bool = False) -> None:
        self.spec = spec
        self.created = created
        self.is_lapsed = is_lapsed
        #: Replaced as a whole by each change, so that holding it is holding what was.
        self.cursors = cursors
        self.shares = [0] * spec.partitions
        #: Those who are attached, in order.
        self.consumers: dict[str, Consumer] = {}
        self.by_term: dict[int, Consumer] = {}

    @property
    def cursor(self) -> int:
        """Everything up to it has been acknowledged, in every partition."""
        return min(self.cursors)

    def describe(self) -> SubscriptionState:
        """It as it stands."""
        spec = self.spec
        consumers = tuple(
            ConsumerState(one.name, one.term, one.partitions, one.outstanding_events) for one in self.consumers.values()
        )
        return SubscriptionState(
            spec.name,
            spec.filter,
            spec.partitions,
            spec.ack_timeout_ms,
            spec.max_lag,
            spec.group,
            self.is_lapsed,
            self.cursor,
            self.created,
            consumers,
        )
