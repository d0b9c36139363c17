"""A stand for one's own behaviours: a world without a server, whose time passes only when the test says so.

    with behaviour_stand(ChatRoom) as stand:
        stand.register("/room", kind="chat_room")
        stand.invoke("/room", "join", member="ada")
        stand.advance(3.0)
        assert stand.get("/room", "members") == ...

Everything but the network is the server's own: order, held keys, listeners, the log and what a restart finds in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from env_server.behaviours.behaviour import Behaviour
from env_server.behaviours.event import Event
from env_server.model.changes import EventType
from env_server.model.environments import BASIC
from env_server.model.errors import WorldError
from env_server.model.frames import EntryPage, EntryRead, Invoked, Outcome, StreamPage
from env_server.model.limits import Limits
from env_server.model.operations import ClockAction, Code, ListEntries, Placed, Query, ReadStream
from env_server.model.spaces import Position, Shape, Space
from env_server.model.timelines import ClockDeclaration
from env_server.model.values import Json
from env_server.pipeline.listeners.ears import make_event
from env_server.testing.ops import Op, Sent, control, drop, get, invoke, new_environment
from env_server.testing.stand import Stand


@contextmanager
def behaviour_stand(*behaviours: type[Behaviour] | Behaviour, limits: Limits | None = None) -> Iterator[BehaviourStand]:
    """A fresh world `main` with these behaviours; `limits` None = those of a server."""
    made = [one() if isinstance(one, type) else one for one in behaviours]
    stand = Stand(*made, limits=limits)
    yield BehaviourStand(stand)
    if stand.fatal:
        raise stand.fatal[0]


class StillRunning(AssertionError):
    """The operation has not ended: it awaits time, or waits for its turn."""


class Running:
    """An operation that was begun."""

    def __init__(self, sent: Sent) -> None:
        self._sent = sent

    @property
    def done(self) -> bool:
        """Whether it has ended."""
        return self._sent.done

    @property
    def result(self) -> Any:
        """What it returned, JSON parsed.

        Raises:
            StillRunning.
            WorldError: what it ended with.
        """
        if not self.done:
            raise StillRunning("let time pass with advance(), or let go what it waits for")
        outcome = _checked(self._sent.outcome())
        assert isinstance(outcome, Invoked)
        return Json(outcome.result.text).document

    @property
    def revision(self) -> int:
        """Of its effect; the world's when it had none."""
        outcome = _checked(self._sent.outcome())
        assert isinstance(outcome, Invoked)
        return outcome.revision


class BehaviourStand:
    """See the module. Every method returns when all has happened that needs no time, listeners included."""

    def __init__(self, engine: Stand) -> None:
        #: The world op by op, for what this face does not show.
        self.engine = engine

    @property
    def revision(self) -> int:
        """The world's."""
        return self.engine.world.revision

    def register(
        self,
        path: str,
        kind: str = BASIC,
        config: dict[str, Any] | None = None,
        clock: ClockDeclaration | None = None,
        space: Space | Shape | None = None,
        **labels: str,
    ) -> None:
        """Creates an environment, with or without a clock and a space.

        Raises:
            WorldError.
        """
        declared = space if space is None or isinstance(space, Space) else Space(space)
        settings = Json.of(config or {})
        self._do(new_environment(path, kind=kind, config=settings, clock=clock, space=declared, labels=labels))

    def control_clock(self, path: str, action: ClockAction, ns: int = 0, rate: float = 0.0) -> None:
        """Does something to the clock of an environment; returns when it has arrived.

        Raises:
            WorldError.
        """
        self._do(control(path, action, ns, rate))

    def invoke(self, path: str, operation: str, /, **arguments: Any) -> Any:
        """Runs an operation that needs no time; returns its result, JSON parsed.

        Raises:
            StillRunning: it sleeps, or waits for its turn: use `begin` and `advance`.
            WorldError: what it ended with.
        """
        return self.begin(path, operation, **arguments).result

    def begin(self, path: str, operation: str, /, **arguments: Any) -> Running:
        """Begins an operation, which may go on while time passes."""
        return Running(self.engine.do(invoke(path, operation, **arguments)))

    def set(self, path: str, key: str, value: Any, actor: str = "", position: Iterable[float] | None = None) -> None:
        """Sets an entry, as a client's plain update does; dicts and lists become JSON. With `position` it moves there.

        Raises:
            WorldError.
        """
        kept: Any = Json.of(value) if isinstance(value, dict | list) else value
        if position is None:
            self._do(Op(path, key, Code.SET, kept, actor=actor))
        else:
            self._do(Op(path, key, Code.PLACE, Placed(kept, tuple(map(float, position))), actor=actor))

    def move(self, path: str, key: str, position: Iterable[float]) -> None:
        """Moves an entry; an empty position takes it out of the space.

        Raises:
            WorldError.
        """
        self._do(Op(path, key, Code.MOVE, tuple(map(float, position))))

    def add(self, path: str, key: str, amount: float = 1) -> None:
        """Increments a counter.

        Raises:
            WorldError.
        """
        self._do(Op(path, key, Code.ADD, amount))

    def delete(self, path: str, key: str = "") -> None:
        """Deletes an entry, or without a key the environment.

        Raises:
            WorldError.
        """
        self._do(drop(path, key))

    def get(self, path: str, key: str) -> Any:
        """An entry's value, JSON parsed; None when it is absent."""
        outcome = self.engine.do(get(path, key)).outcome()
        return _parsed(outcome.entry.value) if isinstance(outcome, EntryRead) else None

    def position(self, path: str, key: str) -> Position | None:
        """Where an entry is; None when it is nowhere, or absent."""
        outcome = self.engine.do(get(path, key)).outcome()
        return outcome.entry.position if isinstance(outcome, EntryRead) else None

    def entries(self, path: str) -> dict[str, Any]:
        """All values and counters of an environment, at most 10,000.

        Raises:
            WorldError.
        """
        page = self._do(Op(path, "", Code.QUERY, Query(ListEntries(page_size=10_000))))
        assert isinstance(page, EntryPage)
        return {key: _parsed(entry.value) for key, entry in page.entries}

    def items(self, path: str, key: str) -> list[Any]:
        """The items of a stream, oldest first; none when it is absent."""
        outcome = self.engine.do(Op(path, key, Code.QUERY, Query(ReadStream(limit=10_000)))).outcome()
        return [_parsed(item.value) for item in outcome.items] if isinstance(outcome, StreamPage) else []

    def events(self, path: str = "", *types: EventType) -> list[Event]:
        """All events of the world in order, or those of an environment, of these types."""
        return [
            event
            for changes in self.engine.records()
            for event in (make_event("main", changes, row) for row in range(len(changes)))
            if path in ("", event.path) and (not types or event.type in types)
        ]

    def failures(self) -> list[Event]:
        """What listeners failed at."""
        return self.events("", EventType.LISTENER_FAILED)

    def advance(self, seconds: float) -> None:
        """Lets time pass."""
        self.engine.clock.advance(seconds)

    def kill_and_restart(self, *behaviours: type[Behaviour] | Behaviour) -> None:
        """As kill -9 and a new start: what was not durable is gone, what ran is forgotten, deadlines begin anew.

        With the same behaviours, or with others if any are given.
        """
        self.engine.kill()
        self._reopen(behaviours)

    def restart(self, *behaviours: type[Behaviour] | Behaviour) -> None:
        """A clean stop and a new start."""
        self.engine.stop()
        self._reopen(behaviours)

    def _reopen(self, behaviours: tuple[type[Behaviour] | Behaviour, ...]) -> None:
        if behaviours:
            self.engine.install(*(one() if isinstance(one, type) else one for one in behaviours))
        self.engine.open()
        self.engine.clock.settle()

    def _do(self, op: Op) -> Outcome:
        return _checked(self.engine.do(op).outcome())


def _checked(outcome: Outcome) -> Outcome:
    if isinstance(outcome, WorldError):
        raise outcome.with_traceback(None)
    return outcome


def _parsed(value: Any) -> Any:
    return Json(value.text).document if isinstance(value, Json) else value
