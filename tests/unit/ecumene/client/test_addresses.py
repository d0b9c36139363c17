"""An address without a port is refused at once, not tried at a port that nobody asked for."""

import ecumene
import pytest
from ecumene.client.addresses import find_address, has_port


@pytest.mark.parametrize(
    "address", ["127.0.0.1:7170", "[::1]:7170", "localhost:1", "unix:/tmp/socket", "dns:///host:80"]
)
def test_an_address_with_a_port_is_one(address: str) -> None:
    assert has_port(address)


def test_without_an_address_that_of_the_environment_is_meant_then_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    for told, meant in ((None, "127.0.0.1:7170"), ("", "127.0.0.1:7170"), ("10.0.0.1:7", "10.0.0.1:7")):
        if told is None:
            monkeypatch.delenv("ECUMENE_SERVER", raising=False)
        else:
            monkeypatch.setenv("ECUMENE_SERVER", told)
        assert find_address(None) == meant
        assert find_address("host:1") == "host:1"
    monkeypatch.setenv("ECUMENE_SERVER", "localhost")
    with pytest.raises(ecumene.InvalidFieldError, match="write host:port"):
        ecumene.connect()


@pytest.mark.parametrize(
    "address", ["localhost", "", ":7170", "127.0.0.1:", "127.0.0.1:http", "host:65536", "http://localhost:7170"]
)
def test_an_address_without_a_port_is_refused_before_anything_is_tried(address: str) -> None:
    with pytest.raises(ecumene.InvalidFieldError, match="write host:port"):
        ecumene.connect(address)
    with pytest.raises(ecumene.InvalidFieldError, match="write host:port"):
        ecumene.Worlds(address)
