"""Participants of an event-driven clock at random, in one process, and a judge of every jump.

Workers hear of events late, act on some of them, report what is true, and say when they want to be woken; all of it
between single loop steps, so that changes are on their way at every stage. The judge looks at a jump in the moment of
its decision, with nothing but the log, what is on its way to it, and what the workers have said.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Callable
from operator import itemgetter
from typing import Any

import pytest

from env_server.behaviours.behaviour import Behaviour
from env_server.model.changes import EventType
from env_server.model.operations import ClockAction, Code, SetTimer
from env_server.pipeline.timekeeping.jumping import Jumping
from env_server.timeline.timeline import Timeline
from tests.attended import Worker, control, make_town
from tests.engine import Op, drop, new_environment, put

WORKERS = "/town/workers"
PLACES = ("/town", "/town/square", "/far")
HEARS: tuple[dict[str, Any] | None, ...] = (
    None,
    {"hears": []},
    {"hears": [{"path_prefix": "/far"}]},
    {"hears": [{"path_prefix": "/town", "types": ["timer_fired", "clock_changed"]}, {"key_glob": "k1"}]},
)


Row = tuple[int, int, str, str, Any]
"""Of an event: revision, type, path, key, value."""


class Wrong(AssertionError):
    """A jump that should not have been."""


class Mind:
    """What one worker knows: it has read the events up to `read`, and dealt with them."""

    def __init__(self, key: str, hears: dict[str, Any] | None, set_revision: int, clock: str = "/town") -> None:
        self.key = key
        self.clock = clock
        self.floor = set_revision
        """Up to here it has to consume everything, whatever it hears."""
        self.hears = hears
        self.set_revision = set_revision
        self.read = set_revision
        self.wake_ns: int | None = None
        self.is_idle = False
        """As it has said last, in a way that counts."""
        self.said_wake_ns: int | None = None
        self.said_consumed = 0

    def forget_said(self) -> None:
        """What it has said counts no more."""
        self.is_idle = False


class AttendedTown:
    """The town, its workers and the judge."""

    def __init__(self, seed: int, *behaviours: Behaviour) -> None:
        self.chance = random.Random(seed)
        self.stand = stand = make_town(*behaviours)
        self.hears = HEARS
        stand.done(new_environment("/town/square"), new_environment("/far"))
        self.worker = Worker(stand)
        self.minds: dict[str, Mind] = {}
        self.jumps = self.ahead = 0
        """Jumps in all, and those behind ops that were not on the disk yet."""
        self._number = 0
        self._log: list[Row] = []
        self._read_at = -1

    def run(self, steps: int) -> None:
        """So many random steps, then everybody deals with everything until nothing is due."""
        actions = self.list_actions()
        for _ in range(steps):
            self.chance.choice(actions)()
        self._let_all_come_to_rest()
        self._check_times()

    def list_actions(self) -> list[Callable[[], None]]:
        """What may happen, some of it more often."""
        actions = [self._act] * 4 + [self._read] * 6 + [self._report] * 8 + [self._step] * 6
        return [*actions, self._join, self._leave, self._end_stream, self._reopen, self._control]

    # -- the judge --

    def judge(self, timeline: Timeline, to_ns: int) -> None:
        """Looks at a jump that is about to be."""
        self.jumps += 1
        self.ahead += self.stand.world.revision != self._durable()
        wakes, under_way, path = [], self._list_under_way(), self.path_of(timeline)
        for mind in self.minds.values():
            if mind.clock != path:
                continue
            on_its_way = max((row[0] for row in under_way if self.is_owed(mind, row)), default=0)
            owed = max(self._last_heard(mind), mind.floor, on_its_way)
            if not mind.is_idle:
                raise Wrong(f"{mind.key} is not idle")
            if mind.said_consumed < owed:
                raise Wrong(f"{mind.key} has consumed {mind.said_consumed} of {owed}")
            wakes.append(mind.said_wake_ns)
        dues = [timer.due_ns for queue in timeline.timers.values() for timer in queue.by_name.values()]
        times = [ns for ns in (*dues, *wakes) if ns is not None]
        if not times or to_ns != max(timeline.state.now_ns, min(times)):
            raise Wrong(f"jumps to {to_ns} from {timeline.state.now_ns}, due are {times}")
        if timeline.state.paused and not timeline.state.stepping:
            raise Wrong("jumps while it is paused")

    def path_of(self, timeline: Timeline) -> str:
        """The environment of a clock."""
        return self.stand.world._tree.nodes.by_number[timeline.number].path

    def place_of(self, path: str) -> str:
        """Where those are who take part in the clock there."""
        return WORKERS

    def is_owed(self, mind: Mind, row: Row) -> bool:
        """Whether a mind has to deal with an event before its clock goes on."""
        return _hears(mind, row)

    def _check_times(self) -> None:
        """No clock has gone back, over kills too."""
        shown: dict[str, int] = {}
        for _, kind, path, _, value in self._rows():
            if kind == EventType.CLOCK_CHANGED:
                now_ns = value.document["now_ns"]
                if now_ns < shown.get(path, 0):
                    raise Wrong(f"the clock of {path} goes back from {shown[path]} to {now_ns}")
                shown[path] = now_ns

    def _list_under_way(self) -> list[Row]:
        """Rows that are not on the disk."""
        return [
            (
                changes.revisions[row],
                changes.types[row],
                changes.places[changes.path[row]].path,
                changes.keys[row],
                None,
            )
            for changes in self.stand.world._commits.list_under_way()
            for row in range(len(changes))
        ]

    def _last_heard(self, mind: Mind) -> int:
        rows = self._rows()
        first = bisect_right(rows, mind.set_revision, key=itemgetter(0))
        return max((row[0] for row in rows[first:] if self.is_owed(mind, row)), default=0)

    def _rows(self) -> list[Row]:
        """All rows of the log, read once a state of it."""
        if self._read_at != self._durable():
            self._log, self._read_at = self.stand.rows(), self._durable()
        return self._log

    # -- what happens --

    def _act(self) -> None:
        place, number = self.chance.choice(PLACES), self.chance.randrange(3)
        if place == "/far" or self.chance.random() < 0.6:
            self.stand.send(put(place, f"k{number}", number))
        else:
            at_ns = self._now_ns() + self.chance.randrange(0, 40)
            self.stand.send(Op(place, f"t{number}", Code.SET_TIMER, SetTimer(at_ns=at_ns)))

    def _read(self) -> None:
        if self.minds:
            mind = self.chance.choice(list(self.minds.values()))
            mind.read = self.chance.randint(min(mind.read, self._durable()), self._durable())

    def _report(self) -> None:
        """Says what is true: that it has consumed what it has read, and is idle or not."""
        if not self.minds:
            return
        mind = self.chance.choice(list(self.minds.values()))
        busy = self.chance.random() < 0.1
        mind.wake_ns = self.chance.choice([None, mind.wake_ns, self._now_ns() + self.chance.randrange(0, 30)])
        self.say(mind, busy=busy)

    def say(self, mind: Mind, *, busy: bool = False) -> None:
        """One report, and what counts of it."""
        consumed = min(mind.read, self._durable())
        worker = self.worker_of(mind)
        before = len(worker.voids)
        mind.is_idle, mind.said_wake_ns, mind.said_consumed = not busy, mind.wake_ns, consumed
        worker.say(mind.key, mind.set_revision, busy=busy, earliest_wake_ns=mind.wake_ns, consumed_revision=consumed)
        if len(worker.voids) > before:
            mind.forget_said()

    def worker_of(self, mind: Mind) -> Worker:
        """Through which it reports."""
        return self.worker

    def _step(self) -> None:
        for _ in range(self.chance.randrange(1, 4)):
            self.stand.clock.step()

    def _join(self) -> None:
        if sum(mind.clock == "/town" for mind in self.minds.values()) < 4:
            self._number += 1
            again = [key for key, mind in self.minds.items() if mind.clock == "/town"]
            key = self.chance.choice([f"w{self._number}", *again])
            hears = self.chance.choice(self.hears)
            self.minds.pop(key, None)  # in the moment in which it has its effect
            self.minds[key] = Mind(key, hears, self.worker.join(key, hears))

    def _leave(self) -> None:
        if len(self.minds) > 1:
            key = self.chance.choice(list(self.minds))
            mind = self.minds.pop(key)
            self.stand.done(drop(self.place_of(mind.clock), mind.key))

    def _end_stream(self) -> None:
        if self.chance.random() < 0.3:
            self._forget_all_said()
            self.worker.end()

    def _reopen(self) -> None:
        if self.chance.random() < 0.2:
            self._forget_all_said()
            self.stand.reopen()
            self._begin_again()

    def _begin_again(self) -> None:
        """On what the disk holds."""
        self.worker = Worker(self.stand)
        for mind in self.minds.values():
            mind.read = min(mind.read, self._durable())
            mind.floor = max(mind.floor, self._durable())  # nobody knows who had heard what

    def _control(self) -> None:
        action = self.chance.choice([ClockAction.PAUSE, ClockAction.RESUME, ClockAction.STEP, ClockAction.RESUME])
        self.stand.send(control(action))

    def _forget_all_said(self) -> None:
        for mind in self.minds.values():
            mind.forget_said()

    def _let_all_come_to_rest(self) -> None:
        """All consume and report, no more often than they have to, until nothing is due: the clock must get there."""
        self.stand.do(control(ClockAction.RESUME))
        if not any(mind.clock == "/town" for mind in self.minds.values()):
            self._join()
        for mind in self.minds.values():
            mind.wake_ns = None
        self._forget_all_said()
        self.worker.end()
        # What is said now is said while something is on its way that is waited for, although nobody hears it.
        self.stand.send(put("/far", "k0", 0), new_environment("/elsewhere"))
        for _ in range(400):
            for mind in self.minds.values():
                if not mind.is_idle or mind.said_consumed < max(self._last_heard(mind), mind.floor):
                    mind.read = self._durable()
                    self.say(mind)
            self.stand.clock.settle()
            self.stand.clock.advance(0.05)
            timelines = self.stand.world.timekeeping._clocks.by_number.values()
            if not any(timeline.timers or timeline.is_under_way for timeline in timelines):
                return
        raise Wrong(f"does not come to rest: {self.stand.world.timekeeping.see('/town').held_by}")

    def _durable(self) -> int:
        return self.stand.world.durable_revision

    def _now_ns(self) -> int:
        return self.stand.world.timekeeping.see("/town").state.now_ns


def _hears(mind: Mind, row: Row) -> bool:
    """Whether the row of an event is one that the value says it hears, or a change of the clock."""
    _, kind, path, key, _ = row
    if kind == EventType.CLOCK_CHANGED and path == mind.clock:
        return True
    if mind.hears is None:
        return path == mind.clock or path.startswith(mind.clock + "/")
    for part in mind.hears["hears"]:
        prefix = part.get("path_prefix", "/")
        if "path_glob" in part:
            prefix = part["path_glob"].removesuffix("/*")
        is_there = prefix == "/" or path == prefix or path.startswith(prefix + "/")
        types = {EventType[name.upper()] for name in part.get("types", ())}
        if is_there and (not types or kind in types) and part.get("key_glob", key) == key:
            return True
    return False


def judged(town: AttendedTown, monkeypatch: pytest.MonkeyPatch) -> AttendedTown:
    """Puts the judge before every jump."""
    jump = Jumping._jump

    def judge_then_jump(self: Jumping, timeline: Timeline, to_ns: int) -> bool:
        town.judge(timeline, to_ns)
        return jump(self, timeline, to_ns)

    monkeypatch.setattr(Jumping, "_jump", judge_then_jump)
    return town
