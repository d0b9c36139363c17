"""A model of simulated time: clocks and timers as plain lists, looked through from the begin for each step."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from env_server.model.operations import ClockAction, SetTimer
from env_server.model.timelines import MissedTicks


@dataclass
class ModelTimer:
    """A timer that waits."""

    path: str
    name: str
    clock: str
    due: int
    every: int
    missed: MissedTicks
    payload: Any = None
    fired: int = 0
    left_out: int = 0


@dataclass
class ModelClock:
    """A manual clock."""

    now: int
    lookahead: int | None
    paused: bool = False
    target: int | None = None
    skipping: bool = False


@dataclass
class TimelineModel:
    """Environments with or without clocks. `timers` is in the order of their settings."""

    clocks: dict[str, ModelClock] = field(default_factory=dict)
    timers: list[ModelTimer] = field(default_factory=list)
    #: What was told: path and name, time of the nearest clock from when until when, document.
    told: list[tuple[str, str, tuple[int, int], dict[str, Any]]] = field(default_factory=list)
    #: Of each of them the timer's own clock.
    _clock_of: list[str] = field(default_factory=list)

    def nearest(self, path: str) -> str | None:
        """Path of the nearest clock."""
        return max((known for known in self.clocks if _is_in(path, known)), key=len, default=None)

    def find(self, path: str, name: str) -> ModelTimer | None:
        """The timer of that name."""
        return next((timer for timer in self.timers if (timer.path, timer.name) == (path, name)), None)

    def declare(self, path: str, start: int, lookahead: int | None, paused: bool = False) -> str:
        """An environment gets a clock."""
        if path in self.clocks:
            return "CLOCK_EXISTS"
        self.clocks[path] = ModelClock(start, lookahead, paused)
        return ""

    def delete(self, path: str) -> None:
        """An environment goes, with all below it."""
        self.clocks = {known: clock for known, clock in self.clocks.items() if not _is_in(known, path)}
        self.timers = [timer for timer in self.timers if not _is_in(timer.path, path)]

    def set(self, path: str, name: str, asked: SetTimer) -> str:
        """Sets a timer; the reason why not."""
        clock = self.nearest(path)
        if clock is None:
            return "CLOCK_NOT_FOUND"
        known = self.find(path, name)
        if known is not None and asked.if_absent:
            return "unchanged"
        if known is not None:
            self.timers.remove(known)
        due = asked.at_ns if asked.after_ns is None else self.clocks[clock].now + asked.after_ns
        assert due is not None
        payload = asked.payload.document if asked.payload is not None else None
        self.timers.append(ModelTimer(path, name, clock, due, asked.every_ns, asked.missed, payload))
        return ""

    def cancel(self, path: str, name: str) -> str:
        """Cancels a timer; the reason why not."""
        known = self.find(path, name)
        if known is None:
            return "TIMER_NOT_FOUND"
        self.timers.remove(known)
        return ""

    def control(self, path: str, action: ClockAction, ns: int) -> str:
        """Controls a clock; the reason why not."""
        clock = self.clocks.get(path)
        if clock is None:
            return "CLOCK_NOT_FOUND"
        end = clock.now if clock.target is None else clock.target
        if action is ClockAction.PAUSE or action is ClockAction.RESUME:
            if clock.paused == (action is ClockAction.PAUSE):
                return "unchanged"
            clock.paused = not clock.paused
            if clock.paused:
                clock.target, clock.skipping = None, False
        elif action is ClockAction.STEP:
            if clock.target is not None:
                return "CLOCK_ON_ITS_WAY"
            dues = [timer.due for timer in self.timers if timer.clock == path]
            if not dues:
                return "unchanged"
            clock.target = max(end, min(dues))
        elif clock.paused:
            return "CLOCK_PAUSED"
        else:
            to = end + ns if action is ClockAction.ADVANCE_BY else ns
            if to < end:
                return "TIME_PASSED"
            if clock.target is not None and clock.skipping is not (action is ClockAction.SKIP_TO):
                return "CLOCK_ON_ITS_WAY"
            if to == end:
                return "unchanged"
            clock.target, clock.skipping = to, action is ClockAction.SKIP_TO
        return ""

    def run(self) -> None:
        """Everything happens that happens by itself.

        Clocks go side by side: where the nearest one is not the timer's own, it stands somewhere on its way.
        """
        before = {path: clock.now for path, clock in self.clocks.items()}
        first = len(self.told)
        while any(self._step(path) for path in list(self.clocks)):
            pass
        for place, (path, name, at, document) in enumerate(self.told[first:], first):
            shown = self.nearest(path)
            if shown is not None and shown != self._clock_of[place]:
                at = before[shown], self.clocks[shown].now
            self.told[place] = path, name, at, document

    def _step(self, path: str) -> bool:
        clock = self.clocks[path]
        if clock.paused and clock.target is None:
            return False
        goal = clock.now if clock.target is None else max(clock.now, clock.target)
        above = self.nearest(path.rpartition("/")[0] or "/") if path != "/" else None
        if clock.lookahead is not None and above is not None:
            bound = self.clocks[above].now + clock.lookahead
            if bound < goal:
                goal = clock.now if clock.skipping else max(clock.now, bound)
        if clock.skipping and goal > clock.now:
            clock.now = goal
        due = [timer for timer in self.timers if timer.clock == path and timer.due <= goal]
        if due:
            first = min(due, key=lambda timer: timer.due)  # the first of those that are equal
            clock.now = max(clock.now, first.due)
            self._fire(first, clock.now)
            return True
        if clock.target is not None and goal >= clock.target:
            clock.now, clock.target, clock.skipping = goal, None, False
            return True
        moved, clock.now = goal > clock.now, goal
        return moved

    def _fire(self, timer: ModelTimer, now: int) -> None:
        self.timers.remove(timer)
        passed = 0
        if timer.every and timer.missed is MissedTicks.COALESCE:
            while timer.due + timer.every <= now:
                timer.due, passed = timer.due + timer.every, passed + 1
        elif timer.every and timer.missed is MissedTicks.SKIP:
            while timer.due < now:
                timer.due, passed = timer.due + timer.every, passed + 1
        timer.left_out += passed
        if timer.due > now:
            self.timers.append(timer)
            return
        timer.fired += 1
        document = {
            "due_ns": timer.due,
            "fired": timer.fired,
            "missed": timer.left_out,
            "last": not timer.every,
            "payload": timer.payload,
        }
        if self.clocks[timer.clock].skipping and timer.due < now:
            document["skipped"] = True
        shown = self.nearest(timer.path)
        assert shown is not None
        self.told.append((timer.path, timer.name, (self.clocks[shown].now,) * 2, document))
        self._clock_of.append(timer.clock)
        if timer.every:
            timer.due, timer.left_out = timer.due + timer.every, 0
            self.timers.append(timer)


def _is_in(path: str, other: str) -> bool:
    return other == "/" or path == other or path.startswith(other + "/")
