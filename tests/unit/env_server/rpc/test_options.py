"""How the server speaks HTTP/2."""

from env_server.model.limits import Limits
from env_server.rpc.options import SERVER_OPTIONS


def test_a_client_that_pings_as_the_server_does_is_no_offender() -> None:
    options = dict(SERVER_OPTIONS)
    assert options["grpc.http2.min_recv_ping_interval_without_data_ms"] < options["grpc.keepalive_time_ms"]
    assert options["grpc.keepalive_permit_without_calls"] == 1
    assert options["grpc.so_reuseport"] == 0


def test_every_frame_within_its_limit_is_received() -> None:
    options = dict(SERVER_OPTIONS)
    assert options["grpc.max_receive_message_length"] > 4 * Limits().frame_bytes_max
    assert options["grpc.max_send_message_length"] == -1
