"""Subscriptions: cursors that the server keeps, and consumers of what lies behind them."""

from __future__ import annotations

import asyncio
import enum
import weakref
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from env_api.v1 import events_pb2, session_pb2, subscription_service_pb2, subscription_service_pb2_grpc

from ecumene.client import actions
from ecumene.client.consumer_feed import ConsumerFeed, abandon
from ecumene.client.event_batch import EventBatch
from ecumene.client.filters import fill_filter, read_filter
from ecumene.client.model import EventFilter
from ecumene.client.stamps import Stamp
from ecumene.client.unary_calls import identify

if TYPE_CHECKING:
    from ecumene.client.session import Session


class SubscriptionState(enum.IntEnum):
    """Whether a subscription can go on."""

    LIVE = 1
    """The log keeps everything behind its cursor."""
    LAPSED = 2
    """It stayed too far behind; events may be gone. Seek to go on."""


@dataclass(frozen=True, slots=True)
class ConsumerInfo:
    """A consumer that is attached."""

    name: str
    term: int
    partitions: tuple[int, ...]
    outstanding_events: int
    """Delivered and not acknowledged."""


@dataclass(frozen=True, slots=True)
class SubscriptionInfo:
    """A subscription as the server knows it."""

    name: str
    event_filter: EventFilter
    partitions: int
    ack_timeout_ms: int
    max_lag: int
    """Revisions that the cursor may stay behind the world before it lapses."""
    group: str
    state: SubscriptionState
    cursor: int
    """Everything up to this revision has been acknowledged, in every partition."""
    create_revision: int
    consumers: tuple[ConsumerInfo, ...]


class Delivery(EventBatch):
    """Events that a subscription delivered: acknowledge it, alone or in a transaction together with its effects."""

    def __init__(self, frame: events_pb2.EventFrame, world: str, subscription: str, term: int) -> None:
        super().__init__(frame, world)
        self.subscription = subscription
        self.term = term
        """Names the consumer as it was then; once it is replaced, its acknowledgements are refused."""


class Subscription:
    """The handle of a subscription; making it asks the server nothing.

    inbox = world.subscription("mailer")
    await inbox.create(EventFilter(path_prefix="/mail"), if_absent=True)
    async with inbox.consume() as deliveries:
        async for delivery in deliveries:
            await world.transaction().set("/sent", ...).acknowledge(delivery).commit()
    """

    def __init__(self, session: Session, name: str, group: str, stamp: Stamp) -> None:
        self._session = session
        self._group = group
        self._stamp = stamp
        self._stub: Any = subscription_service_pb2_grpc.SubscriptionServiceStub(session.calls.channel)
        self.name = name

    def __repr__(self) -> str:
        return f"<Subscription {self.name} of {self._session.world}>"

    async def create(
        self,
        event_filter: EventFilter | None = None,
        *,
        from_revision: int = 0,
        partitions: int = 1,
        ack_timeout_ms: int = 0,
        max_lag: int = 0,
        if_absent: bool = False,
    ) -> SubscriptionInfo:
        """Create it; the server keeps the log for it from now on.

        `from_revision`: the first wanted; 0 = the next one. `partitions`: so many consumers can share it. 0 elsewhere =
        the server's default.

        Raises:
            SubscriptionExistsError: it exists, unless `if_absent`; that leaves it as it is.
            RevisionCompactedError: events from `from_revision` on are not all kept.
        """
        request = subscription_service_pb2.CreateSubscriptionRequest(
            world=self._session.world,
            name=self.name,
            filter=fill_filter(event_filter or EventFilter()),
            from_revision=from_revision,
            partitions=partitions,
            ack_timeout_ms=ack_timeout_ms,
            max_lag=max_lag,
            if_absent=if_absent,
            caller=identify(self._session.client_id, self._group),
        )
        answer = await self._session.calls.call(self._stub.CreateSubscription, request, repeatable=True)
        return _read_subscription(answer.subscription)

    async def describe(self) -> SubscriptionInfo:
        """How it stands.

        Raises:
            SubscriptionNotFoundError: there is none.
        """
        request = subscription_service_pb2.GetSubscriptionRequest(world=self._session.world, name=self.name)
        answer = await self._session.calls.call(self._stub.GetSubscription, request, repeatable=True)
        return _read_subscription(answer.subscription)

    async def seek(self, from_revision: int = 0) -> SubscriptionInfo:
        """Set the cursor so that `from_revision` comes next (0 = what happens from now on), also when it has lapsed.

        Consumers start anew from there; what they hold is not acknowledged any more.

        Raises:
            SubscriptionNotFoundError: there is none.
            RevisionCompactedError: events from there on are not all kept.
        """
        request = subscription_service_pb2.SeekSubscriptionRequest(
            world=self._session.world,
            name=self.name,
            from_revision=from_revision,
            caller=identify(self._session.client_id, self._group),
        )
        answer = await self._session.calls.call(self._stub.SeekSubscription, request, repeatable=True)
        return _read_subscription(answer.subscription)

    async def delete(self) -> None:
        """Delete it; its consumers end.

        Raises:
            SubscriptionNotFoundError: there is none.
        """
        request = subscription_service_pb2.DeleteSubscriptionRequest(
            world=self._session.world, name=self.name, caller=identify(self._session.client_id, self._group)
        )
        await self._session.calls.call(self._stub.DeleteSubscription, request, repeatable=True)

    async def acknowledge(self, delivery: Delivery) -> None:
        """Move the cursor behind what was delivered. Cheaper than alone: in the transaction of the effects.

        Raises:
            FencedError: the consumer was replaced, or held it for too long; somebody else gets it again.
            SubscriptionLapsedError: it stayed too far behind.
        """
        acknowledge = actions.acknowledge(self.name, delivery.term, delivery.through_revision)
        op = session_pb2.Op(acknowledge=acknowledge)
        await self._session.issue("/", op, self._stamp.put_on({}))

    def consume(self, consumer: str = "", *, outstanding_max: int = 0) -> Deliveries:
        """Attach a consumer, by default under the session's client id, and read what is delivered.

        With one partition it takes the place of whoever consumes now. At most `outstanding_max` events are delivered
        and not acknowledged (0 = the server's default). Iterating raises what Deliveries tells.
        """
        return Deliveries(self, self._session, consumer or self._session.client_id, outstanding_max)


class Deliveries:
    """What a subscription delivers to one consumer: every event at least once, in order.

    What is held here, read or not, is not taken for lost: the server is told that it is still wanted, until this is
    closed or dropped. When the connection breaks the consumer attaches anew, and what was not acknowledged comes again.

    Iterating raises:
        FencedError: another consumer took its place, or it was silent for too long.
        SubscriptionNotFoundError, SubscriptionLapsedError: there is nothing more to consume.
        EcumeneError: the server refused; the class says why.
    """

    def __init__(self, subscription: Subscription, session: Session, consumer: str, outstanding_max: int) -> None:
        self._subscription = subscription
        self._session = session
        self._feed = ConsumerFeed(session, subscription.name, consumer, outstanding_max)
        self._feed.start()
        loop = asyncio.get_running_loop()
        self._abandoned = weakref.finalize(self, abandon, loop, self._feed)
        self._abandoned.atexit = False

    @property
    def partitions(self) -> tuple[int, ...]:
        """Partitions that are this consumer's now."""
        return self._feed.partitions

    @property
    def history(self) -> str:
        """The line of revisions that what is delivered belongs to; a kept revision means something only with it."""
        return self._feed.history

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Delivery:
        found = await self._feed.next_frame()
        if found is None:
            raise StopAsyncIteration
        frame, term = found
        return Delivery(frame, self._session.world, self._subscription.name, term)

    async def acknowledge(self, delivery: Delivery) -> None:
        """See Subscription.acknowledge."""
        await self._subscription.acknowledge(delivery)

    async def aclose(self) -> None:
        """Consume no more; what was not acknowledged goes to the next consumer."""
        self._abandoned.detach()
        await self._feed.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


async def list_subscriptions(session: Session) -> list[SubscriptionInfo]:
    """All subscriptions of the world, by name, each as it stood when its page was asked for."""
    stub: Any = subscription_service_pb2_grpc.SubscriptionServiceStub(session.calls.channel)
    request = subscription_service_pb2.ListSubscriptionsRequest(world=session.world)
    found: list[SubscriptionInfo] = []
    while True:
        answer = await session.calls.call(stub.ListSubscriptions, request, repeatable=True)
        found += [_read_subscription(message) for message in answer.subscriptions]
        if not answer.next_page_token:
            return found
        request.page_token = answer.next_page_token


def _read_subscription(message: subscription_service_pb2.Subscription) -> SubscriptionInfo:
    return SubscriptionInfo(
        name=message.name,
        event_filter=read_filter(message.filter),
        partitions=message.partitions,
        ack_timeout_ms=message.ack_timeout_ms,
        max_lag=message.max_lag,
        group=message.group,
        state=SubscriptionState(message.state),
        cursor=message.cursor,
        create_revision=message.create_revision,
        consumers=tuple(
            ConsumerInfo(consumer.name, consumer.term, tuple(consumer.partitions), consumer.outstanding_events)
            for consumer in message.consumers
        ),
    )
