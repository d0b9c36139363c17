"""The actors that a caller knows, of its own making or told of in messages, as long as anybody refers to them."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ecumene.workflows.errors import ValueRefusedError
from ecumene.workflows.proxies import Proxy
from ecumene.workflows.targets import Target

if TYPE_CHECKING:
    from ecumene.workflows.callers import Caller


class KnownActors:
    """Those of one caller: each is one target, however many proxies stand for it."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._targets: weakref.WeakValueDictionary[str, Target] = weakref.WeakValueDictionary()
        self._classes: dict[str, type] = {}

    def add(self, target: Target, cls: type) -> None:
        """An actor that the caller makes."""
        self._targets[target.actor] = target
        self._classes[target.class_name] = cls

    def describe(self, proxy: Proxy) -> list[Any]:
        """What a proxy is in a message. Raises ValueRefusedError."""
        target = proxy._target
        if target.cls is None or proxy._caller.flow == self._caller.flow:
            return [target.actor, target.host, target.class_name, target.made]
        raise ValueRefusedError(f"{proxy!r} belongs to another flow")

    def find(self, described: Sequence[Any]) -> Proxy:
        """The proxy of what `describe` gave, here or elsewhere. Raises ValueError: it is nothing of that."""
        actor, host, class_name, made = described
        if not all(isinstance(text, str) for text in (actor, host, class_name)) or type(made) is not int:
            raise ValueError("it describes no actor")
        target = self._targets.get(actor)
        if target is None:
            target = self._targets[actor] = Target(actor, host, class_name, None)
        if made > target.made:
            # It was made again, since we heard of it last.
            target.host, target.made, target.failure = host, made, None
        return Proxy(self._caller, target, target.retry, target.timeout_s)

    def find_class(self, name: str) -> type:
        """A class of which an actor was made through this caller."""
        return self._classes[name]

    def list_targets(self) -> set[Target]:
        """All that somebody refers to."""
        return {found for ref in self._targets.valuerefs() if (found := ref())}
