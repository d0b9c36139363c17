"""Filters of events as wire messages, and back."""

from __future__ import annotations

from env_api.v1 import events_pb2

from ecumene.client.model import EventFilter, EventType


def read_filter(message: events_pb2.EventFilter) -> EventFilter:
    """A filter as the server knows it."""
    return EventFilter(
        path_prefix=message.path_prefix,
        path_glob=message.path_glob,
        key_glob=message.key_glob,
        types=tuple(EventType(kind) for kind in message.types),
        labels=dict(message.labels),
        actor=message.actor,
        exclude_own=message.exclude_own,
        region=message.region,
    )


def fill_filter(wanted: EventFilter) -> events_pb2.EventFilter:
    """A filter as a message."""
    message = events_pb2.EventFilter(
        path_prefix=wanted.path_prefix,
        path_glob=wanted.path_glob,
        key_glob=wanted.key_glob,
        labels=dict(wanted.labels),
        actor=wanted.actor,
        exclude_own=wanted.exclude_own,
        region=wanted.region,
    )
    message.types.extend(int(kind) for kind in wanted.types)  # type: ignore[misc]
    return message
