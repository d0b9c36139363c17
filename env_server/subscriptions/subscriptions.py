"""All subscriptions of one world: the effects of the ops on them, and what comes of them by itself."""

from collections.abc import Callable, Iterator
from typing import Final

from env_server.model.errors import AlreadyExists, Exhausted, InvalidRequest, Reason, RevisionCompacted, WorldError
from env_server.model.frames import Written
from env_server.model.limits import Limits
from env_server.model.names import check_identity, check_segment
from env_server.model.operations import Acknowledge
from env_server.model.ports import Clock
from env_server.model.subscriptions import CreateSubscription, DeleteSubscription, SeekSubscription, SubscriptionState
from env_server.model.values import Json
from env_server.model.watching import Filter
from env_server.subscriptions.consumer import Consumer
from env_server.subscriptions.consuming import Consuming, OpenCursor, not_found
from env_server.subscriptions.facts import decode_subscriptions, encode_definition, encode_end, encode_share
from env_server.subscriptions.ledger import HeldLog, Ledger
from env_server.subscriptions.passing import Passing
from env_server.subscriptions.retention import Retention, find_bytes_max
from env_server.subscriptions.subscription import Subscription
from env_server.subscriptions.terms import KEY, Terms

_LAPSED_AT_ONCE_MAX: Final = 100
"""In one loop step; the others in the next ones."""


class Subscriptions:
    """Kept in memory, stored as facts. Used in the world's loop only."""

    def __init__(
        self,
        ledger: Ledger,
        log: HeldLog,
        limits: Limits,
        clock: Clock,
        facts: dict[str, bytes],
        *,
        check_filter: Callable[[Filter], object],
        open_cursor: OpenCursor,
        touch: Callable[[], None],
        when_seen: Callable[[Callable[[], None]], None],
        change: Callable[[Callable[[], bool]], None],
    ) -> None:
        """Begins with what is stored in `facts`.

        `check_filter` raises InvalidRequest for one that cannot be compiled. `touch()` gets the open group committed,
        `when_seen` calls once everything applied by now is durable, `change` applies a change of the world's own.
        """
        self._ledger = ledger
        self._log = log
        self._limits = limits
        self._clock = clock
        self._check_filter = check_filter
        self._touch = touch
        self._change = change
        stored = dict(facts)
        terms = Terms(ledger, stored.pop(KEY, None))
        self._consuming = Consuming(ledger, log, limits, clock, terms, open_cursor, touch, when_seen)
        self._retention = Retention(ledger, log, find_bytes_max(limits))
        self._passing = Passing(ledger, lambda: self._by_name.values(), self._pass)
        self._when_seen = when_seen
        self._by_name = {one.spec.name: one for one in decode_subscriptions(stored)}
        for subscription in self._by_name.values():
            if not subscription.is_lapsed:
                self._retention.hold(subscription)

    def __len__(self) -> int:
        return len(self._by_name)

    # ---- asked from outside ----

    def find(self, name: str) -> SubscriptionState:
        """A subscription as it stands.

        Raises:
            NotFound.
        """
        return self._find(name).describe()

    def list(self, after: str = "") -> Iterator[SubscriptionState]:
        """Those with names behind `after`, by name, each as it is when it is its turn."""
        for name in sorted(name for name in self._by_name if name > after):
            if name in self._by_name:
                yield self._by_name[name].describe()

    def attach(self, name: str, consumer: str, outstanding_max: int = 0) -> Consumer:
        """Begins to consume; `outstanding_max` 0 = the default.

        Raises:
            NotFound, InvalidRequest.
            OutOfRange: SUBSCRIPTION_LAPSED.
            Exhausted: SUBSCRIPTION_QUOTA.
        """
        check_identity(consumer, "consumer")
        return self._consuming.attach(self._find(name), consumer, outstanding_max or self._limits.outstanding_events)

    def detach(self, name: str, consumer: Consumer) -> None:
        """The consumer has gone: what it held is for others. Without effect when it has ended."""
        subscription = self._by_name.get(name)
        if subscription is not None:
            self._consuming.detach(subscription, consumer)

    def extend(self, name: str, term: int) -> None:
        """Gives a consumer all its time again for what it holds.

        Raises:
            NotFound, Fenced.
            OutOfRange: SUBSCRIPTION_LAPSED.
        """
        self._consuming.find(self._find(name), term).deadline.renew()

    def end_all(self, error: WorldError) -> None:
        """Ends all consumers: the world is gone."""
        for subscription in self._by_name.values():
            self._consuming.end_all(subscription, error)

    # ---- effects of ops; the caller advances the tree when they changed something ----

    def create(self, asked: CreateSubscription) -> Written:
        """CREATE_SUBSCRIPTION. Not in a transaction.

        Raises:
            InvalidRequest.
            AlreadyExists: SUBSCRIPTION_EXISTS.
            Exhausted: SUBSCRIPTION_QUOTA.
            RevisionCompacted: its first event is gone.
        """
        check_segment(asked.name, self._limits, Reason.INVALID_FIELD, "name")
        if asked.name in self._by_name:
            if asked.if_absent:
                return Written(self._ledger.revision, 0, changed=False)
            raise AlreadyExists(Reason.SUBSCRIPTION_EXISTS, subscription=asked.name)
        self._check_filter(asked.filter)
        cursor = self._find_cursor(asked.from_revision, asked.max_lag)
        maximum = self._limits.subscriptions_max
        if len(self._by_name) >= maximum:
            problem = f"the world has subscriptions_max = {maximum} subscriptions"
            raise Exhausted.of(Reason.SUBSCRIPTION_QUOTA, "subscriptions_max", maximum, problem)
        subscription = Subscription(asked, self._ledger.revision + 1, [cursor] * asked.partitions)
        self._by_name[asked.name] = subscription
        self._retention.hold(subscription)
        return self._changed(subscription, "created")

    def seek(self, asked: SeekSubscription) -> Written:
        """SEEK_SUBSCRIPTION. Not in a transaction.

        Raises:
            NotFound.
            InvalidRequest: further behind than it may stay.
            RevisionCompacted: its first event is gone.
        """
        subscription = self._find(asked.name)
        cursor = self._find_cursor(asked.from_revision, subscription.spec.max_lag)
        subscription.cursors = [cursor] * subscription.spec.partitions
        subscription.is_lapsed = False
        self._retention.hold(subscription)
        written = self._changed(subscription, "sought")
        self._consuming.begin_anew(subscription)
        return written

    def delete(self, asked: DeleteSubscription) -> Written:
        """DELETE_SUBSCRIPTION. Not in a transaction.

        Raises:
            NotFound.
        """
        subscription = self._find(asked.name)
        del self._by_name[asked.name]
        self._retention.release(subscription)
        self._consuming.end_all(subscription, not_found(asked.name))
        for fact in encode_end(subscription):
            self._ledger.note_fact(*fact)
        return self._row(subscription, "deleted")

    def acknowledge(self, asked: Acknowledge) -> Written:
        """ACKNOWLEDGE, also in a transaction.

        Raises:
            NotFound, Fenced.
            OutOfRange: SUBSCRIPTION_LAPSED.
            InvalidRequest: it was not delivered so far.
        """
        subscription = self._find(asked.subscription)
        consumer = self._consuming.find(subscription, asked.term)
        if asked.revision > consumer.delivered:
            problem = f"must be at most {consumer.delivered}, the last one delivered under this term"
            raise InvalidRequest(Reason.INVALID_FIELD, "acknowledge.revision", problem)
        before = subscription.cursors, consumer.acknowledged, consumer.deadline.due_ns

        def take_back() -> None:
            subscription.cursors, consumer.acknowledged, consumer.deadline.due_ns = before

        if self._ledger.journal is not None:
            self._ledger.journal.append(take_back)
        if asked.revision > consumer.acknowledged:
            self._move(subscription, consumer, asked.revision)
        consumer.deadline.renew()
        return Written(self._ledger.revision, 0, changed=False)

    # ---- by itself ----

    def durable(self, number: int) -> None:
        """Everything up to this group is durable: lets the log go on, and ends what stays too far behind."""
        self._retention.durable(number)
        self._passing.look()
        for _ in range(_LAPSED_AT_ONCE_MAX):
            subscription = self._retention.find_lapsed(number) or self._retention.find_oversized()
            if subscription is None:
                break
            if not self._passing.move(subscription):
                self._lapse(subscription)

    def settle(self, then: Callable[[], None]) -> None:
        """Lets cursors pass over what is for nobody, so that the log may go; `then` once that is durable."""
        if self._passing.move_all():
            self._when_seen(then)
        else:
            then()

    def _pass(self, subscription: Subscription, consumer: Consumer, revision: int) -> None:
        self._move(subscription, consumer, revision)
        self._touch()

    def _lapse(self, subscription: Subscription) -> None:
        self._retention.release(subscription)
        if self._by_name.get(subscription.spec.name) is not subscription:
            return
        subscription.is_lapsed = True
        self._consuming.end_all(subscription, self._consuming.lapsed(subscription))

        def tell() -> bool:
            self._changed(subscription, "lapsed")
            return True

        self._change(tell)

    def _find(self, name: str) -> Subscription:
        subscription = self._by_name.get(name)
        if subscription is None:
            raise not_found(name)
        return subscription

    def _find_cursor(self, from_revision: int, max_lag: int) -> int:
        """Where one stands that begins with a revision; the next one comes after that of the running op."""
        if from_revision == 0:
            return self._ledger.revision + 1
        first = self._log.first_revision
        if from_revision < first:
            raise RevisionCompacted(from_revision, first)
        if self._ledger.revision + 1 - (from_revision - 1) > max_lag:
            problem = f"lies further behind than max_lag = {max_lag}: it would lapse at once"
            raise InvalidRequest(Reason.INVALID_FIELD, "from_revision", problem)
        return from_revision - 1

    def _move(self, subscription: Subscription, consumer: Consumer, revision: int) -> None:
        cursors = subscription.cursors.copy()
        for partition in consumer.partitions:
            if cursors[partition] < revision:
                cursors[partition] = revision
        subscription.cursors = cursors
        consumer.acknowledged = revision
        self._ledger.note_fact(*encode_share(subscription, consumer.share))
        self._retention.moved()
        consumer.wake()

    def _changed(self, subscription: Subscription, state: str) -> Written:
        """Stores all of it, and tells of the change."""
        self._ledger.note_fact(*encode_definition(subscription))
        for share in sorted(set(subscription.shares)):
            self._ledger.note_fact(*encode_share(subscription, share))
        return self._row(subscription, state)

    def _row(self, subscription: Subscription, state: str) -> Written:
        told = Json.of({"state": state, "cursor": subscription.cursor})
        self._ledger.tell_subscription(subscription.spec.name, told)
        return Written(self._ledger.revision + 1, 0)
