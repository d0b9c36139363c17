"""Subscriptions as plain data: what is asked for, and what is told of them."""

from dataclasses import dataclass
from typing import NamedTuple

from env_server.model.watching import Filter


@dataclass(frozen=True, slots=True)
class CreateSubscription:
    """Keep a cursor on the events that match. `from_revision` is the first one wanted, 0 = the next one."""

    name: str
    filter: Filter
    partitions: int
    ack_timeout_ms: int
    max_lag: int
    """Revisions that the cursor may stay behind the world."""
    from_revision: int = 0
    group: str = ""
    """Path of the group whose view it takes; "" = everything."""
    if_absent: bool = False


@dataclass(frozen=True, slots=True)
class SeekSubscription:
    """Go on with `from_revision`, 0 = the next one, in every partition."""

    name: str
    from_revision: int = 0


@dataclass(frozen=True, slots=True)
class DeleteSubscription:
    """Forget a subscription."""

    name: str


class Assignment(NamedTuple):
    """What a consumer has from now on, under a term of its own. Delivery goes on after the revision `cursor`."""

    term: int
    partitions: tuple[int, ...]
    cursor: int


class ConsumerState(NamedTuple):
    """A consumer as it stands."""

    name: str
    term: int
    partitions: tuple[int, ...]
    outstanding_events: int
    """Delivered and not acknowledged."""


class SubscriptionState(NamedTuple):
    """A subscription as it stands."""

    name: str
    filter: Filter
    partitions: int
    ack_timeout_ms: int
    max_lag: int
    group: str
    lapsed: bool
    cursor: int
    """Everything up to it has been acknowledged, in every partition."""
    created: int
    consumers: tuple[ConsumerState, ...]
