"""How a node speaks HTTP/2."""

from __future__ import annotations

from typing import Final

MESSAGE_BYTES_MAX: Final = 4 * 1024 * 1024
"""Of one message that comes in; chunks and descriptions have smaller limits of their own."""

SERVER_OPTIONS: Final[list[tuple[str, int]]] = [
    # A second node on the same port must fail to bind, not take half of the calls.
    ("grpc.so_reuseport", 0),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 5_000),
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", -1),
]
