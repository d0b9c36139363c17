"""Addresses of servers, and which one is meant when none is given.

gRPC takes a silent port 443 where none is given, and waits there for nobody.
"""

import os

from ecumene.client.errors import ErrorDetails, Executed
from ecumene.client.reasons import InvalidFieldError

DEFAULT_SERVER = "127.0.0.1:7170"
"""Where `ecumene serve` listens by itself."""
SERVER_VARIABLE = "ECUMENE_SERVER"
"""Environment variable with the address of the server that is meant when none is given."""
PORT_MAX = 65_535
_OTHER_SCHEMES = ("unix:", "unix-abstract:", "xds:")
_WEB_SCHEMES = ("http://", "https://")


def has_port(address: str) -> bool:
    """Whether the address says which port, or is of a kind that has none. That of a web page is no address."""
    host, _, port = address.rpartition(":")
    if address.startswith(_WEB_SCHEMES):  # gRPC would look up a host of that name
        return False
    return address.startswith(_OTHER_SCHEMES) or (bool(host) and port.isdecimal() and int(port) <= PORT_MAX)


def find_address(address: str | None) -> str:
    """The address, if it can be meant; None = that in ECUMENE_SERVER, else the default of `ecumene serve`.

    Raises:
        InvalidFieldError: it names no port.
    """
    if address is None:
        address = os.environ.get(SERVER_VARIABLE) or DEFAULT_SERVER
    if has_port(address):
        return address
    message = f"address: {address!r} is no address of a server: write host:port, such as {DEFAULT_SERVER}"
    raise InvalidFieldError(ErrorDetails(message=message, reason="INVALID_FIELD", executed=Executed.NO))
