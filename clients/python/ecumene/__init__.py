"""Ecumene for Python: the client, simulations, and the command line.

Everything in `ecumene.client.__all__` is a name of this module: `ecumene.connect`, `ecumene.EcumeneError`, ...
`ecumene.sync` has the same for programs without asyncio. All are loaded when first touched, so that commands which
talk to no server start without gRPC.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ecumene.client import *  # noqa: F403
    from ecumene.client import sync as sync


def __getattr__(name: str) -> Any:
    if name.startswith("_") and name != "__all__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "sync":
        return importlib.import_module("ecumene.client.sync")
    # Not `from ecumene import`: that would ask this function for the module.
    client = importlib.import_module("ecumene.client")
    if name not in (*client.__all__, "__all__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(client, name)


def __dir__() -> list[str]:
    client = importlib.import_module("ecumene.client")
    return sorted([*globals(), *client.__all__, "sync"])
