"""Proxies: stand for actors that live elsewhere; calling their methods sends calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ecumene.workflows.actors import find_method
from ecumene.workflows.limits import check_options
from ecumene.workflows.messages import host_of
from ecumene.workflows.placeholders import Placeholder
from ecumene.workflows.targets import Target
from ecumene.workflows.values import Handle

if TYPE_CHECKING:
    from ecumene.workflows.callers import Caller


class Proxy(Handle):
    """Stands for an actor. `proxy.method(...)` sends a call and returns its Placeholder at once.

    Calls of one caller on one actor run in the order in which they were sent; different actors run side by side. It
    can be passed to other actors, which may call it too.
    """

    __slots__ = ("__weakref__", "_caller", "_retry", "_target", "_timeout_s")

    def __init__(self, caller: Caller, target: Target, retry: int, timeout_s: float | None) -> None:
        self._caller = caller
        self._target = target
        self._retry = retry
        self._timeout_s = timeout_s

    def with_options(self, *, retry: int | None = None, timeout_s: float | None = None) -> Proxy:
        """The same actor, called in another way.

        `retry`: so often a call is run again when its host is lost or its effects met a conflict: for calls that may be
        repeated. Effects that were committed are never repeated. An actor that was made with `retry` is then made anew,
        with what it was made with, on another host. `timeout_s`: a call that runs longer fails with CallTimeoutError.
        """
        check_options(retry or 0, timeout_s)
        return Proxy(
            self._caller,
            self._target,
            self._retry if retry is None else retry,
            self._timeout_s if timeout_s is None else timeout_s,
        )

    def __getattr__(self, name: str) -> ProxyMethod:
        target = self._target
        if target.cls is not None:
            find_method(target.cls, name)
        elif name.startswith("_"):
            raise AttributeError(f"{target.class_name} has no method {name!r} for callers")
        return ProxyMethod(self, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Placeholder:
        """Call the actor's own `__call__`."""
        target = self._target
        if target.cls is not None:
            find_method(target.cls, "__call__")
        return ProxyMethod(self, "__call__")(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<Proxy of {self._target.class_name} {self._target.actor} on {host_of(self._target.host)}>"


class ProxyMethod:
    """A method of an actor that lives elsewhere."""

    __slots__ = ("_name", "_proxy")

    def __init__(self, proxy: Proxy, name: str) -> None:
        self._proxy = proxy
        self._name = name

    def __call__(self, *args: Any, **kwargs: Any) -> Placeholder:
        proxy = self._proxy
        return proxy._caller.call(proxy._target, self._name, args, kwargs, proxy._retry, proxy._timeout_s)

    def __repr__(self) -> str:
        return f"<method {self._name} of {self._proxy!r}>"
