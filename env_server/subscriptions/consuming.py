"""Who consumes: consumers come, are replaced, fenced, and go; the partitions are shared among those who are there."""

from collections.abc import Callable, Iterable
from functools import partial

from env_server.model.errors import Exhausted, Fenced, NotFound, OutOfRange, Reason, WorldError
from env_server.model.limits import Limits
from env_server.model.ports import Clock
from env_server.model.subscriptions import CreateSubscription
from env_server.subscriptions.assignment import plan_assignment
from env_server.subscriptions.consumer import Consumer, Cursor
from env_server.subscriptions.facts import encode_share
from env_server.subscriptions.ledger import HeldLog, Ledger
from env_server.subscriptions.retention import find_bytes_max
from env_server.subscriptions.subscription import Subscription
from env_server.subscriptions.terms import Terms

OpenCursor = Callable[[CreateSubscription, int], Cursor]
"""(what a subscription is for, first revision) -> its events; under the view of its group, if it has one."""


class Consuming:
    """Consumers of all subscriptions of a world."""

    def __init__(
        self,
        ledger: Ledger,
        log: HeldLog,
        limits: Limits,
        clock: Clock,
        terms: Terms,
        open_cursor: OpenCursor,
        touch: Callable[[], None],
        when_seen: Callable[[Callable[[], None]], None],
    ) -> None:
        """`touch()` gets the open group committed; `when_seen` calls once everything applied by now is durable."""
        self._ledger = ledger
        self._log = log
        self._limits = limits
        self._clock = clock
        self._terms = terms
        self._open_cursor = open_cursor
        self._touch = touch
        self._when_seen = when_seen

    def attach(self, subscription: Subscription, name: str, outstanding_max: int) -> Consumer:
        """A new consumer. With one partition it replaces whoever is there, else one of the same name.

        Raises:
            OutOfRange: SUBSCRIPTION_LAPSED.
            Exhausted: SUBSCRIPTION_QUOTA: as many consume as may.
        """
        self._check_lives(subscription)
        spec, consumers = subscription.spec, subscription.consumers
        replaced = consumers.get(name) if spec.partitions > 1 else next(iter(consumers.values()), None)
        if replaced is None:
            self._check_room(subscription)
        consumer = Consumer(
            name,
            outstanding_max,
            self._clock,
            spec.ack_timeout_ms,
            partial(self._open_cursor, spec),
            partial(self._deadline_passed, subscription),
        )
        if replaced is None:
            consumer.share = _find_free_share(consumers.values())
        else:
            consumer.share, consumer.partitions = replaced.share, replaced.partitions
            self._remove(subscription, replaced, f"consumer {name} has replaced this one")
        consumers[name] = consumer
        self._share_out(subscription, {consumer})
        return consumer

    def detach(self, subscription: Subscription, consumer: Consumer) -> None:
        """It has gone: its partitions go to the others at once. Without effect when it has ended already."""
        if subscription.by_term.get(consumer.term) is consumer:
            self._remove(subscription, consumer, "its stream has ended")
            self._share_out(subscription, set())

    def find(self, subscription: Subscription, term: int) -> Consumer:
        """The consumer with this term.

        Raises:
            OutOfRange: SUBSCRIPTION_LAPSED.
            Fenced: it is nobody's, or no longer.
        """
        self._check_lives(subscription)
        consumer = subscription.by_term.get(term)
        if consumer is None:
            raise _fenced(
                subscription, term, "it holds nothing any more: others have, or get again, what was not acknowledged"
            )
        return consumer

    def begin_anew(self, subscription: Subscription) -> None:
        """Its cursors have been set: all its consumers go on from there, under new terms."""
        self._share_out(subscription, set(subscription.consumers.values()))

    def end_all(self, subscription: Subscription, error: WorldError) -> None:
        """Ends all its consumers with an error."""
        consumers = list(subscription.consumers.values())
        subscription.consumers.clear()
        subscription.by_term.clear()
        for consumer in consumers:
            consumer.end(error)

    def lapsed(self, subscription: Subscription) -> OutOfRange:
        """Why nothing is to be had of it."""
        name, cursor, max_lag = subscription.spec.name, subscription.cursor, subscription.spec.max_lag
        bytes_max = find_bytes_max(self._limits)
        return OutOfRange(
            Reason.SUBSCRIPTION_LAPSED,
            f"subscription {name} stayed at revision {cursor}, further behind than max_lag = {max_lag} revisions or "
            f"{bytes_max} bytes of log (subscription_lag_bytes_max): read the state, then seek",
            metadata={"subscription": name, "cursor": str(cursor), "compacted": str(self._log.first_revision)},
        )

    def _check_lives(self, subscription: Subscription) -> None:
        if subscription.is_lapsed:
            raise self.lapsed(subscription)

    def _remove(self, subscription: Subscription, consumer: Consumer, why: str) -> None:
        del subscription.consumers[consumer.name]
        subscription.by_term.pop(consumer.term, None)
        consumer.end(_fenced(subscription, consumer.term, why))

    def _deadline_passed(self, subscription: Subscription, consumer: Consumer) -> None:
        """What it holds is for the others, or for whoever comes next."""
        why = f"nothing was acknowledged or extended within ack_timeout_ms = {subscription.spec.ack_timeout_ms}"
        self._remove(subscription, consumer, why)
        self._share_out(subscription, set())

    def _share_out(self, subscription: Subscription, anew: set[Consumer]) -> None:
        """Gives the partitions to those who are there. Those whose own change, and those in `anew`, begin anew."""
        consumers = subscription.consumers
        if not consumers:
            return
        held = {consumer: consumer.partitions for consumer in consumers.values()}
        stale: set[int] = set()
        for consumer, mine in plan_assignment(subscription.spec.partitions, held).items():
            for partition in mine:
                share = subscription.shares[partition]
                if share != consumer.share:
                    stale |= {share, consumer.share}
                    subscription.shares[partition] = consumer.share
            if consumer in anew or mine != consumer.partitions:
                subscription.by_term.pop(consumer.term, None)
                consumer.assign(self._terms.draw(), mine, subscription.cursors)
                subscription.by_term[consumer.term] = consumer
                anew = anew | {consumer}
        for share in sorted(stale):
            self._ledger.note_fact(*encode_share(subscription, share))
        self._touch()
        for consumer in [one for one in consumers.values() if one in anew]:
            self._when_seen(partial(consumer.tell, consumer.term))

    def _check_room(self, subscription: Subscription) -> None:
        maximum = self._limits.consumers_per_subscription_max
        if len(subscription.consumers) >= maximum:
            problem = f"a subscription has at most consumers_per_subscription_max = {maximum} consumers"
            raise Exhausted.of(
                Reason.SUBSCRIPTION_QUOTA,
                "consumers_per_subscription_max",
                maximum,
                problem,
                self._limits.retry_delay_ms,
            )


def not_found(name: str) -> NotFound:
    """There is no such subscription."""
    return NotFound(Reason.SUBSCRIPTION_NOT_FOUND, subscription=name)


def _fenced(subscription: Subscription, term: int, why: str) -> Fenced:
    """With the newest term that there is as the current version, and the cursor as the current revision."""
    name = subscription.spec.name
    current = {"version": str(max(subscription.by_term, default=0)), "revision": str(subscription.cursor)}
    return Fenced(f"term {term} of subscription {name}: {why}", subscription=name, term=str(term), **current)


def _find_free_share(consumers: Iterable[Consumer]) -> int:
    taken = {consumer.share for consumer in consumers}
    return next(number for number in range(len(taken) + 1) if number not in taken)
