"""The call that is being run: what a method can ask of it, and what it waits for."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol

from ecumene.workflows.errors import CallRefusedError, NoWorldError

if TYPE_CHECKING:
    from ecumene.client import World, Writes
    from ecumene.workflows.callers import Caller
    from ecumene.workflows.calls import Call


class Waits(Protocol):
    """Knows which methods wait for what, and what may still wait."""

    def begin(self, run: Run, call: Call) -> object:
        """A method waits from now on.

        Raises:
            WaitLimitError: too many do.
        """

    def end(self, run: Run, token: object) -> None:
        """It waits no longer."""


class Run:
    """One call under way, from its start to the return of its method."""

    __slots__ = ("_effects", "_world", "actor", "caller", "holds_slot", "instance", "is_blocking", "is_over", "waits")

    def __init__(self, actor: str, instance: Any, caller: Caller, world: World | None, waits: Waits) -> None:
        self.actor = actor
        self.instance = instance
        self.caller = caller
        """Through which its own calls go."""
        self.waits = waits
        self.is_blocking = False
        """Whether its method is a plain function, in a thread of its own."""
        self.holds_slot = False
        self.is_over = False
        self._world = world
        self._effects: Writes | None = None

    @property
    def world(self) -> World:
        """The world that the flow lives in."""
        if self._world is None:
            raise NoWorldError("a local flow has no world; open the flow with workflows.connect")
        return self._world

    @property
    def effects(self) -> Writes:
        """Writes that go with the result."""
        if self.is_over:
            raise CallRefusedError("the call is over: its effects have been sent")
        if self._effects is None:
            self._effects = self.world.writes()
        return self._effects

    def take_effects(self) -> Writes | None:
        """What was staged; nothing can be staged any more."""
        self.is_over = True
        return self._effects if self._effects is not None and len(self._effects) else None


running: ContextVar[Run | None] = ContextVar("running", default=None)
"""The call in whose method we are; None outside of methods."""


def the_run() -> Run:
    """The call in whose method we are.

    Raises:
        CallRefusedError: there is none.
    """
    run = running.get()
    if run is None:
        raise CallRefusedError("this is for methods of actors while a flow runs them")
    return run
