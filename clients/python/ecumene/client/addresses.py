"""Addresses of servers. gRPC takes a silent port 443 where none is given, and waits there for nobody."""

from ecumene.client.errors import ErrorDetails, Executed
from ecumene.client.reasons import InvalidFieldError

PORT_MAX = 65_535
_OTHER_SCHEMES = ("unix:", "unix-abstract:", "xds:")
_WEB_SCHEMES = ("http://", "https://")


def has_port(address: str) -> bool:
    """Whether the address says which port, or is of a kind that has none. That of a web page is no address."""
    host, _, port = address.rpartition(":")
    if address.startswith(_WEB_SCHEMES):  # gRPC would look up a host of that name
        return False
    return address.startswith(_OTHER_SCHEMES) or (bool(host) and port.isdecimal() and int(port) <= PORT_MAX)


def check_address(address: str) -> str:
    """The address, if it can be meant.

    Raises:
        InvalidFieldError: it names no port.
    """
    if has_port(address):
        return address
    message = f"address: {address!r} is no address of a server: write host:port, such as 127.0.0.1:7170"
    raise InvalidFieldError(ErrorDetails(message=message, reason="INVALID_FIELD", executed=Executed.NO))
