"""The SDK: connections, environment handles, frames, watches, and what can go wrong."""

from ecumene.client import public_errors, public_time_and_space
from ecumene.client.actions import Conditions, WriteOptions
from ecumene.client.bulk import BulkFailure, BulkResult
from ecumene.client.environment import Environment
from ecumene.client.event_batch import Event, EventBatch
from ecumene.client.frame_result import FrameResult
from ecumene.client.frames import Frame, FrameWriter
from ecumene.client.kinds import KindInfo, ListenerInfo, OperationInfo
from ecumene.client.leases import Lease, LeaseInfo, Leasing, OnLost
from ecumene.client.listings import Listing
from ecumene.client.locks import Lock
from ecumene.client.model import (
    Access,
    Aggregate,
    AggregateFunction,
    Aggregates,
    AggregateScope,
    AggregateValue,
    Entry,
    EntryKind,
    EntryPage,
    EnvironmentInfo,
    EnvironmentPage,
    EventFilter,
    EventType,
    Gate,
    GateCause,
    GateState,
    Grant,
    Invoked,
    Json,
    Outcome,
    PastPage,
    PastValue,
    StreamItem,
    StreamPage,
    Transacted,
    Value,
    WorldInfo,
    Written,
)
from ecumene.client.public_errors import *  # noqa: F403
from ecumene.client.public_time_and_space import *  # noqa: F403
from ecumene.client.server_info import ServerInfo
from ecumene.client.session import SessionStatistics
from ecumene.client.settings import ClientSettings
from ecumene.client.snapshots import Origin, SnapshotInfo
from ecumene.client.subscriptions import (
    ConsumerInfo,
    Deliveries,
    Delivery,
    Subscription,
    SubscriptionInfo,
    SubscriptionState,
)
from ecumene.client.timeline_actions import ClockChange
from ecumene.client.transaction import Transaction, Writes
from ecumene.client.watch_feed import WatchStatistics
from ecumene.client.watches import FrameWatch, InitialState, Watch
from ecumene.client.world import Connecting, World, connect
from ecumene.client.worlds import Worlds

__all__ = [
    "Access",
    "Aggregate",
    "AggregateFunction",
    "AggregateScope",
    "AggregateValue",
    "Aggregates",
    "BulkFailure",
    "BulkResult",
    "ClientSettings",
    "ClockChange",
    "Conditions",
    "Connecting",
    "ConsumerInfo",
    "Deliveries",
    "Delivery",
    "Entry",
    "EntryKind",
    "EntryPage",
    "Environment",
    "EnvironmentInfo",
    "EnvironmentPage",
    "Event",
    "EventBatch",
    "EventFilter",
    "EventType",
    "Frame",
    "FrameResult",
    "FrameWatch",
    "FrameWriter",
    "Gate",
    "GateCause",
    "GateState",
    "Grant",
    "InitialState",
    "Invoked",
    "Json",
    "KindInfo",
    "Lease",
    "LeaseInfo",
    "Leasing",
    "ListenerInfo",
    "Listing",
    "Lock",
    "OnLost",
    "OperationInfo",
    "Origin",
    "Outcome",
    "PastPage",
    "PastValue",
    "ServerInfo",
    "SessionStatistics",
    "SnapshotInfo",
    "StreamItem",
    "StreamPage",
    "Subscription",
    "SubscriptionInfo",
    "SubscriptionState",
    "Transacted",
    "Transaction",
    "Value",
    "Watch",
    "WatchStatistics",
    "World",
    "WorldInfo",
    "Worlds",
    "WriteOptions",
    "Writes",
    "Written",
    "connect",
]
__all__ += public_errors.__all__
__all__ += public_time_and_space.__all__
