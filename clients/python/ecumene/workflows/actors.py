"""Actors: plain classes whose calls run one at a time, here or where their proxies send them."""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, Self

from ecumene.workflows.errors import CallRefusedError, ValueRefusedError
from ecumene.workflows.runs import running, the_run
from ecumene.workflows.values import name_class, name_program

if TYPE_CHECKING:
    from ecumene.client import World, Writes
    from ecumene.workflows.proxies import Proxy

ACTOR_GROUP = "ecumene.actors"
"""Entry points that name classes of actors."""


class Actor:
    """Base of classes that can live elsewhere. Without a flow it is a plain class, and its calls plain calls.

    class Debater(Actor):
        def __init__(self, name): self.name = name
        def answer(self, claim): return f"{self.name} doubts that {claim}"

    Debater("Ann").answer("...")                  a str
    Debater("Ann").to_dist().answer("...")        a Placeholder of it: the call runs on a host

    Methods are functions or coroutine functions. Public ones can be called from elsewhere: one at a time, those of one
    caller in its order. Functions run in threads and may block; what they wait for must not be the actor itself.
    """

    _made_with: tuple[tuple[Any, ...], dict[str, Any]] = ((), {})

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        made = super().__new__(cls)
        object.__setattr__(made, "_made_with", (args, kwargs))
        return made

    def to_dist(self, *, host: str = "", retry: int = 0, timeout_s: float | None = None) -> Proxy:
        """A proxy of an actor of this class, made anew with the arguments that this one was made with.

        What has changed in this one since then is not taken along. It lives in the flow that was opened last; without
        one, a flow is opened at ECUMENE_SERVER and lasts as long as the program. Inside a method: in the method's flow.
        `host`: the name of one. `retry`, `timeout_s`: of its calls, see `Proxy.with_options`.

        Raises:
            NoHostError: there is none, or not that one.
            ValueRefusedError: the arguments cannot be sent.
        """
        from ecumene.workflows.flows import find_maker

        args, kwargs = self._made_with
        return find_maker().make(type(self), args, kwargs, host=host, retry=retry, timeout_s=timeout_s)

    @property
    def effects(self) -> Writes:
        """Writes that take effect with the result of the call at hand, in one transaction, or not at all.

        Raises:
            NoWorldError: the flow is a local one.
            CallRefusedError: no call is under way.
        """
        return the_run().effects

    @property
    def world(self) -> World:
        """The world, for coroutine methods; what it writes is not part of the call's transaction.

        Raises:
            NoWorldError: the flow is a local one.
            CallRefusedError: no call is under way, or it is that of a plain function.
        """
        run = the_run()
        if run.is_blocking:
            raise CallRefusedError("`world` is for coroutine methods; functions have `effects`")
        return run.world

    @property
    def actor_id(self) -> str:
        """Its id in the world; "" for one that was made by hand."""
        run = running.get()
        return run.actor if run is not None and run.instance is self else ""


def find_method(cls: type, name: str) -> Callable[..., Any]:
    """A method that may be called from elsewhere.

    Raises:
        AttributeError: it has none of the name, or it is not for others.
    """
    if name.startswith("_") and name != "__call__":
        raise AttributeError(f"{cls.__name__}.{name} is not for callers")
    # Not getattr: every class has the `__call__` of its own class.
    found = next((vars(parent)[name] for parent in cls.__mro__ if name in vars(parent)), None)
    if isinstance(found, staticmethod | classmethod):
        found = getattr(cls, name)
    if name in _RESERVED or not callable(found):
        what = "is not a method: read it through one" if found is not None else "does not exist"
        raise AttributeError(f"{cls.__name__}.{name} {what}")
    method: Callable[..., Any] = found
    return method


def is_coroutine_method(cls: type, name: str) -> bool:
    """Whether a method is awaited."""
    method = getattr(cls, name, None)
    return inspect.iscoroutinefunction(getattr(method, "__wrapped__", method))


def find_actor_class(name: str, modules: Collection[str] | None) -> type[Actor]:
    """The class of `module:Class`, or of an installed package's entry point; its module is imported.

    `modules`: only these may be named, since whoever names one has it run; None = any that is installed.

    Raises:
        CallRefusedError: there is none of the name, it is no class of actors, or its module may not be named.
    """
    if modules is not None and ":" in name and name.partition(":")[0] not in modules:
        among = ", ".join(modules) or "none: it needs --module"
        raise CallRefusedError(f"class {name!r} may not be named here: the host's modules are {among}")
    try:
        found = _load(name) if ":" in name else _load_declared(name)
    except (ImportError, AttributeError, ValueError) as error:
        raise CallRefusedError(f"class {name!r} cannot be loaded here: {error}") from error
    if not (isinstance(found, type) and issubclass(found, Actor)):
        raise CallRefusedError(f"{name!r} is no class of actors")
    return found


def name_actor_class(cls: type) -> str:
    """Under which name a class is found on hosts.

    Raises:
        ValueRefusedError: it is not at the top of a module, so that no name finds it.
    """
    name = name_class(cls)
    if "<locals>" in name:
        raise ValueRefusedError(f"{name} is made inside a function: hosts find classes of modules only")
    return name


def _load(name: str) -> object:
    module_name, _, path = name.partition(":")
    # The program's own file is not to be imported a second time.
    found: object = importlib.import_module("__main__" if module_name == name_program() else module_name)
    for part in path.split("."):
        found = getattr(found, part)
    return found


def _load_declared(name: str) -> object:
    for entry_point in importlib.metadata.entry_points(group=ACTOR_GROUP, name=name):
        return entry_point.load()
    declared = ", ".join(sorted({entry.name for entry in importlib.metadata.entry_points(group=ACTOR_GROUP)}))
    raise CallRefusedError(f"no class of actors {name!r} is installed; there are {declared or 'none'}")


_RESERVED = frozenset({"to_dist", "effects", "world", "actor_id"})
