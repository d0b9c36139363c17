"""Subscriptions and what their consumers are told, for the wire."""

from collections.abc import Iterator

from env_api.v1 import events_pb2, subscription_service_pb2

from env_server.model.subscriptions import Assignment, SubscriptionState
from env_server.model.watching import Delivery, Filter
from env_server.pipeline import World
from env_server.rpc.encode.events import encode_delivery
from env_server.rpc.encode.headers import encode_header
from env_server.rpc.encode.wire import CONSUMED_EVENTS


def encode_subscription(state: SubscriptionState) -> subscription_service_pb2.Subscription:
    """A subscription as it stands."""
    pb2 = subscription_service_pb2
    return pb2.Subscription(
        name=state.name,
        filter=encode_filter(state.filter),
        partitions=state.partitions,
        ack_timeout_ms=state.ack_timeout_ms,
        max_lag=state.max_lag,
        group=state.group,
        state=pb2.SUBSCRIPTION_STATE_LAPSED if state.lapsed else pb2.SUBSCRIPTION_STATE_LIVE,
        cursor=state.cursor,
        create_revision=state.created,
        consumers=[
            pb2.Consumer(
                name=consumer.name,
                term=consumer.term,
                partitions=consumer.partitions,
                outstanding_events=consumer.outstanding_events,
            )
            for consumer in state.consumers
        ],
    )


def encode_filter(asked: Filter) -> events_pb2.EventFilter:
    """Which events are wanted."""
    return events_pb2.EventFilter(
        path_prefix=asked.path_prefix,
        path_glob=asked.path_glob,
        key_glob=asked.key_glob,
        types=sorted(asked.types),  # type: ignore[arg-type]
        labels=asked.labels,
        actor=asked.actor,
        exclude_own=bool(asked.excluded_producer),
        region=asked.region,
    )


def encode_consumed(step: Assignment | Delivery, world: World) -> Iterator[bytes]:
    """One step of a consumer as ConsumeResponses, usually one."""
    if isinstance(step, Assignment):
        told = subscription_service_pb2.Assignment(term=step.term, partitions=step.partitions, cursor=step.cursor)
        header = encode_header(world)
        yield subscription_service_pb2.ConsumeResponse(assignment=told, header=header).SerializeToString()
        return
    for frame in encode_delivery(step, 0, world.limits, CONSUMED_EVENTS):
        yield frame.encoded
