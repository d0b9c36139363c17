"""An event-driven clock at /town in a world in this process, and workers that report for its participants."""

from __future__ import annotations

from typing import Any

from env_server.model.changes import EventType
from env_server.model.clock_reports import ClockReport, ReportVoid
from env_server.model.errors import WorldError
from env_server.model.operations import ClockAction, Code, ControlClock, EnvironmentUpdate, SetTimer
from env_server.model.timelines import ClockDeclaration, ClockMode
from env_server.model.values import Json
from tests.engine import Op, Stand, new_environment

EVENT_DRIVEN = ClockDeclaration(ClockMode.EVENT_DRIVEN)


def make_town(*behaviours: Any, **declared: Any) -> Stand:
    """A world with the clock; its participants are the entries of /town/workers."""
    stand = Stand(*behaviours)
    stand.done(new_environment("/town"), new_environment("/town/workers"))
    clock = ClockDeclaration(ClockMode.EVENT_DRIVEN, participants_path="/town/workers", **declared)
    stand.done(Op("/town", "", Code.UPDATE_ENVIRONMENT, EnvironmentUpdate(clock=clock)))
    return stand


def timer(path: str, name: str, at_ns: int, every_ns: int = 0) -> Op:
    """An op that sets a timer."""
    return Op(path, name, Code.SET_TIMER, SetTimer(at_ns=at_ns, every_ns=every_ns))


def control(action: ClockAction, ns: int = 0, path: str = "/town") -> Op:
    """An op on the clock."""
    return Op(path, "", Code.CONTROL_CLOCK, ControlClock(action, ns))


def told(stand: Stand) -> list[tuple[str, str, int]]:
    """Jumps and firings in their order, each with its time."""
    names = {int(EventType.CLOCK_CHANGED): "now_ns", int(EventType.TIMER_FIRED): "due_ns"}
    return [
        (EventType(kind).name.lower(), key, value.document[names[kind]])
        for _, kind, _, key, value in stand.rows()
        if kind in names
    ]


def now_ns(stand: Stand, path: str = "/town") -> int:
    """What the clock shows."""
    return stand.world.timekeeping.see(path).state.now_ns


def held_by(stand: Stand, path: str = "/town") -> tuple[str, ...]:
    """Why it does not go on."""
    return stand.world.timekeeping.see(path).held_by


class Worker:
    """One stream of a client; what it is told of its reports."""

    def __init__(self, stand: Stand, path: str = "/town") -> None:
        self.stand = stand
        self.path = path
        self.voids: list[ReportVoid] = []

    def void(self, void: ReportVoid) -> None:
        """See Reporter."""
        self.voids.append(void)

    def join(self, key: str, value: object = None, place: str = "/town/workers") -> int:
        """Sets the participant's entry; returns the revision."""
        told = Json.of(value) if isinstance(value, dict) else value
        done = self.stand.done(Op(place, key, Code.SET, told))[0]
        return done.revision  # type: ignore[union-attr]

    def say(self, key: str, set_revision: int, **said: Any) -> None:
        """Reports; by default that all of the present is consumed."""
        said.setdefault("consumed_revision", self.stand.world.durable_revision)
        report = ClockReport(self.path, key, set_revision, **said)
        try:
            self.stand.world.timekeeping.report(report, self)
        except WorldError as error:
            self.void(ReportVoid(self.path, key, set_revision, error))

    def report(self, key: str, set_revision: int, **said: Any) -> None:
        """The same, and all that comes of it."""
        self.say(key, set_revision, **said)
        self.stand.clock.settle()

    def end(self) -> None:
        """Its stream ends."""
        self.stand.world.timekeeping.end_reports(self)
