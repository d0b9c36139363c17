"""A world in this process, on a memory disk and a manual clock: what the tests of the engine stand on.

It is part of the product (env_server.testing), where users' own tests find it too.
"""

from __future__ import annotations

from env_server.testing.ops import Op, Sent, add, drop, get, invoke, make_frame, new_environment, put
from env_server.testing.stand import Stand

__all__ = ["Op", "Sent", "Stand", "add", "drop", "get", "invoke", "make_frame", "new_environment", "put"]
