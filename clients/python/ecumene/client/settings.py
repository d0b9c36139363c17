"""Settings of a client, with units and bounds in their names; each default suits a program on the same network."""

from __future__ import annotations

from dataclasses import dataclass

from ecumene.client.errors import ErrorDetails, Executed, InvalidArgumentError

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """How a client connects, waits and bounds its memory.

    ecumene.connect(address, settings=ClientSettings(reconnect_timeout_s=3600))
    """

    reconnect_timeout_s: float = 60.0
    """A broken session that makes no progress for so long fails, with everything that waits in it."""
    attempt_timeout_s: float = 5.0
    """One attempt to connect gets at most this long."""
    backoff_first_ms: int = 50
    """Before the n-th attempt in a row: a random wait of 0 to backoff_first_ms · 2ⁿ, at most backoff_ms_max."""
    backoff_ms_max: int = 2_000
    heartbeats_missed_max: int = 3
    """The server promises a message every heartbeat; after so many silent ones the connection counts as broken."""
    heartbeat_default_ms: int = 5_000
    """For servers that promise none."""
    ops_waiting_max: int = 200_000
    """Single ops issued and not yet sent; one more raises QueueFullError."""
    refusals_max: int = 10
    """An op that the server refused for now (QUEUE_FULL, RATE_LIMITED, DRAINING, RECOVERING; without effect) is issued
    again this often, alone or with others of its frame, with the waits above, within its caller's deadline, and if no
    op on its key has passed it."""
    watch_events_max: int = 65_536
    """Events that one watch may hold unread, give or take one frame of the server."""
    watch_bytes_max: int = 8 * MIB
    """Bytes that one watch may hold unread, as encoded, give or take one frame of the server."""
    flush_timeout_s: float = 5.0
    """Closing waits so long for what is unanswered."""
    call_timeout_s: float = 10.0
    """A call outside the session (leases, subscriptions, kinds) gets so long, repetitions included."""
    message_bytes_max: int = 64 * MIB
    """The transport's limit, both ways."""
    keepalive_interval_ms: int = 30_000
    keepalive_timeout_ms: int = 10_000

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if not getattr(self, name) > 0:
                what = ErrorDetails(message=f"{name} must be above 0", reason="INVALID_FIELD", executed=Executed.NO)
                raise InvalidArgumentError(what)

    def channel_options(self) -> list[tuple[str, int | str]]:
        """Options of a gRPC channel."""
        return [
            ("grpc.max_send_message_length", self.message_bytes_max),
            ("grpc.max_receive_message_length", self.message_bytes_max),
            ("grpc.keepalive_time_ms", self.keepalive_interval_ms),
            ("grpc.keepalive_timeout_ms", self.keepalive_timeout_ms),
            ("grpc.keepalive_permit_without_calls", 0),
            # Channels would share a subchannel and its own backoff; the waits between attempts are ours. Its own would
            # grow to two minutes, in which a server that is back is told to refuse connections.
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.initial_reconnect_backoff_ms", self.backoff_first_ms),
            ("grpc.max_reconnect_backoff_ms", self.backoff_ms_max),
            ("grpc.enable_retries", 0),
        ]
