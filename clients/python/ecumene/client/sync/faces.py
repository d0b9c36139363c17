"""Blocking faces of the classes of the asyncio SDK, made from them: no method is written, or forgotten, twice.

    of the asyncio class                    of its face
    coroutine method, awaitable result      call that returns when it is done
    other method, property                  the same, done in the loop
    async for, async with, await            for, with, call
    asyncio.Future                          concurrent.futures.Future
    object of a class that has a face       its face

Everything happens in the loop of the connection, so that faces may be used from any number of threads.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import weakref
from collections import deque
from collections.abc import Callable
from types import FunctionType
from typing import Any

from ecumene import client
from ecumene.client.sync.loop_thread import LoopThread, join_loop

FACES: dict[type, type[Face]] = {}
"""Class of the asyncio SDK → its face."""

RENAMED = {"aclose": "close"}
"""Methods that say "async" in their name."""

_END = object()


class Connection:
    """What one call opened: a user of the loop. It is closed when no face of it is left."""

    def __init__(self) -> None:
        self._user = object()
        self.loop: LoopThread = join_loop(self._user)
        weakref.finalize(self, self.loop.drop_user, self._user).atexit = False

    def open(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call what opens something with a `close`; when it fails, nothing is left."""
        try:
            inner = self.loop.call(function, *args, **kwargs)
        except BaseException:
            self.close()
            raise
        self.loop.set_close(self._user, inner.close)
        return wrap(inner, self)

    def close(self) -> None:
        """Close it, and wait."""
        self.loop.close_user(self._user)


class Face:
    """An object of the asyncio SDK for programs without a loop."""

    __slots__ = ("__weakref__", "_connection", "_inner", "_put_back")

    _connection: Connection
    _inner: Any
    _put_back: deque[Any] | None
    """Of an iterator whose wait was interrupted: items that were taken and that nobody got."""

    def __init__(self, *_args: object, **_kwargs: object) -> None:
        raise TypeError(f"a {type(self).__name__} comes from `connect`, or from what that returns")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        value = getattr(self._inner, name)
        if _is_internal(type(value)):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return wrap(value, self._connection)

    def __repr__(self) -> str:
        tells_nothing = inspect.getattr_static(self._inner, "__repr__") is object.__repr__
        return f"<{type(self).__name__}>" if tells_nothing else repr(self._inner)


def wrap(value: Any, connection: Connection) -> Any:
    """The face of a value; the value itself when its class has none."""
    face_class = FACES.get(type(value))
    if face_class is None:
        return value
    face = object.__new__(face_class)
    face._connection = connection
    face._inner = value
    face._put_back = None
    return face


def needs_face(member: object) -> bool:
    """Whether it is a class with anything that only a loop can use; what is only awaited is gone before it is seen."""
    if not inspect.isclass(member) or hasattr(member, "__await__"):
        return False
    return hasattr(member, "__anext__") or any(
        inspect.iscoroutinefunction(attribute) for _, attribute in inspect.getmembers_static(member)
    )


def make_face(inner_class: type, module: str, *, is_opened: bool = False, is_public: bool = False) -> type[Face]:
    """The face of a class.

    `is_opened`: its objects are what connections open, and closing one closes the connection. `is_public`: the
    class itself is called to open one.
    """
    members: dict[str, Any] = {"__doc__": inner_class.__doc__, "__module__": module, "__slots__": ()}
    for name, member in inspect.getmembers_static(inner_class):
        if isinstance(member, FunctionType | property) and not name.startswith("_"):
            members[RENAMED.get(name, name)] = _make_member(inner_class, name, member)
    if hasattr(inner_class, "__anext__"):
        members |= {"__iter__": _return_self, "__next__": _make_next(inner_class)}
    if hasattr(inner_class, "__aenter__"):
        members |= {"__enter__": _enter, "__exit__": _exit}
    if hasattr(inner_class, "__len__"):
        members["__len__"] = lambda face: len(face._inner)
    if is_opened:
        members |= {"close": _make_close(members["close"]), "__enter__": _return_self, "__exit__": _close_at_exit}
    if is_public:
        members["__init__"] = _make_init(inner_class)
    FACES[inner_class] = type(inner_class.__name__, (Face,), members)
    return FACES[inner_class]


def _make_member(inner_class: type, name: str, member: FunctionType | property) -> Any:
    if isinstance(member, property):
        return property(functools.partial(_call, member.fget), doc=member.__doc__)
    if inspect.isasyncgenfunction(member):
        raise TypeError(
            f"{inner_class.__name__}.{name}: a generator has no face, an iterator class with `try_next` has"
        )
    owner = next(base for base in inner_class.__mro__ if name in vars(base))
    call = _call if needs_face(owner) else _call_in_place

    @functools.wraps(member)
    def method(face: Face, *args: Any, **kwargs: Any) -> Any:
        return call(member, face, *args, **kwargs)

    return method


def _call(function: Any, face: Face, *args: Any, **kwargs: Any) -> Any:
    connection = face._connection
    args = tuple(map(_unwrap, args))
    kwargs = {name: _unwrap(argument) for name, argument in kwargs.items()}
    result = connection.loop.call(function, face._inner, *args, **kwargs)
    return face if result is face._inner else wrap(result, connection)


def _call_in_place(function: Any, face: Face, *args: Any, **kwargs: Any) -> Any:
    """For what comes from a class that knows no loop, and needs none."""
    result = function(face._inner, *args, **kwargs)
    return face if result is face._inner else result


def _make_next(inner_class: type) -> Any:
    try_next = getattr(inner_class, "try_next", None)

    def __next__(face: Face) -> Any:
        # Behind an interrupt the loop is asked: what was put back comes first.
        item = None if try_next is None or face._put_back is not None else try_next(face._inner)
        if item is None:
            item = _take_next(face)
        if item is _END:
            raise StopIteration
        return item

    return __next__


def _take_next(face: Face) -> Any:
    connection, left = face._connection, face._put_back if face._put_back is not None else deque()
    try:
        item = connection.loop.call_or_put_back(left.append, _next_or_end, face._inner, left)
    except Exception:
        raise
    except BaseException:
        face._put_back = left
        raise
    face._put_back = left or None
    return wrap(item, connection)


async def _next_or_end(inner: Any, left: deque[Any]) -> Any:
    return left.popleft() if left else await anext(inner, _END)


def _is_internal(value_class: type) -> bool:
    """Whether a value is the SDK's own business, and would be used outside the loop."""
    ours = value_class.__module__.startswith(f"{client.__name__}.")
    return ours and getattr(client, value_class.__name__, None) is not value_class


def _unwrap(argument: Any) -> Any:
    return argument._inner if isinstance(argument, Face) else argument


def _return_self(face: Face) -> Face:
    return face


def _enter(face: Face) -> Any:
    inner, connection = face._inner, face._connection

    def leave(_: Any) -> None:
        """What nobody knows to have been entered is left."""
        leaving = type(inner).__aexit__(inner, None, None, None)
        connection.loop.keep(asyncio.get_running_loop().create_task(leaving, name="ecumene sync leave"))

    entered = connection.loop.call_or_put_back(leave, type(inner).__aenter__, inner)
    return face if entered is inner else wrap(entered, connection)


def _exit(face: Face, *failure: Any) -> Any:
    return _call(type(face._inner).__aexit__, face, *failure)


def _close_at_exit(face: Face, *_failure: Any) -> None:
    face._connection.close()


def _make_close(inner_close: Any) -> Any:
    @functools.wraps(inner_close)
    def close(face: Face) -> None:
        face._connection.close()

    return close


def _make_init(inner_class: Any) -> Any:
    @functools.wraps(inner_class.__init__)
    def __init__(face: Face, *args: Any, **kwargs: Any) -> None:
        opened = Connection().open(inner_class, *args, **kwargs)
        face._connection, face._inner, face._put_back = opened._connection, opened._inner, None

    return __init__
