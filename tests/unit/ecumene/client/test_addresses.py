"""An address without a port is refused at once, not tried at a port that nobody asked for."""

import ecumene
import pytest
from ecumene.client.addresses import has_port


@pytest.mark.parametrize(
    "address", ["127.0.0.1:7170", "[::1]:7170", "localhost:1", "unix:/tmp/socket", "dns:///host:80"]
)
def test_an_address_with_a_port_is_one(address: str) -> None:
    assert has_port(address)


@pytest.mark.parametrize(
    "address", ["localhost", "", ":7170", "127.0.0.1:", "127.0.0.1:http", "host:65536", "http://localhost:7170"]
)
def test_an_address_without_a_port_is_refused_before_anything_is_tried(address: str) -> None:
    with pytest.raises(ecumene.InvalidFieldError, match="write host:port"):
        ecumene.connect(address)
    with pytest.raises(ecumene.InvalidFieldError, match="write host:port"):
        ecumene.Worlds(address)
