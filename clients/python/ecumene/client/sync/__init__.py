"""The SDK for scripts, notebooks and threads: blocking calls, plain iterators, `with`.

    from ecumene import sync

    with sync.connect("127.0.0.1:7170") as world:
        room = world.environment("/room")
        room.set("mood", "calm")
        for event in room.watch(initial_state=True):
            print(event.key, event.value)

Every name of `ecumene` is here, with the same arguments, results and exceptions. A connection may be used from any
number of threads; an interrupt ends a wait and leaves the connection whole. Close what you open, or drop it.
A callback runs in the thread that serves all connections: it must be quick, and cannot make blocking calls.
"""

from __future__ import annotations

import functools
from typing import Any

import ecumene.client as asyncio_client
from ecumene.client.sync.faces import Connection, make_face, needs_face

_OPENED = (asyncio_client.World, asyncio_client.Worlds)
_PUBLIC = (asyncio_client.Worlds,)

__all__ = [name for name in asyncio_client.__all__ if not hasattr(getattr(asyncio_client, name), "__await__")]


@functools.wraps(asyncio_client.connect)
def connect(*args: Any, **kwargs: Any) -> Any:
    return Connection().open(asyncio_client.connect, *args, **kwargs)


for _name in __all__:
    _member = getattr(asyncio_client, _name)
    if needs_face(_member):
        globals()[_name] = make_face(_member, __name__, is_opened=_member in _OPENED, is_public=_member in _PUBLIC)
    elif _name != "connect":
        globals()[_name] = _member
