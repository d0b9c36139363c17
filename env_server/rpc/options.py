"""How the server speaks HTTP/2: one list, so that a test can read it and a client can be set to match."""

from typing import Final

RECEIVE_BYTES_MAX: Final = 64 * 1024 * 1024
"""Of one message. Beyond it the transport ends the stream; frames have their own, smaller limit."""

KEEPALIVE_TIME_MS: Final = 30_000
KEEPALIVE_TIMEOUT_MS: Final = 10_000
PING_INTERVAL_MIN_MS: Final = 5_000
"""Clients may ping this often without data; ours ping every 30 s. A smaller client interval is a strike."""

PENDING_CALLS_MAX: Final = 100_000
"""Calls that have come and were not taken up yet. Beyond 1,000, unless told otherwise, the transport ends them as
CANCELLED, with no word of why."""

SERVER_OPTIONS: Final[list[tuple[str, int]]] = [
    # A second server on the same port must fail to bind, not take half of the connections.
    ("grpc.so_reuseport", 0),
    # A connection cut without FIN is found and closed after 40 s, idle or not.
    ("grpc.keepalive_time_ms", KEEPALIVE_TIME_MS),
    ("grpc.keepalive_timeout_ms", KEEPALIVE_TIMEOUT_MS),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", PING_INTERVAL_MIN_MS),
    ("grpc.server.max_pending_requests", PENDING_CALLS_MAX),
    ("grpc.server.max_pending_requests_hard_limit", PENDING_CALLS_MAX),
    ("grpc.max_receive_message_length", RECEIVE_BYTES_MAX),
    # Our own bound is message_bytes_max; a transport bound below it would turn an answer into a lost stream.
    ("grpc.max_send_message_length", -1),
]
