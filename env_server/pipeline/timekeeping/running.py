"""What makes clocks go on: they fire what is due, each timer in a revision of its own, and arrive.

Little is done in the loop step that asked for it, much in slices: the next one comes when the last is on the disk, so
that others have their turn and nothing piles up. What a kill leaves undone is found at the
recovery, since clocks and timers are as durable as their targets, and goes on then. Keys that somebody holds are waited
for, as by any op.
"""

from collections.abc import Callable
from typing import Final

from env_server.model.changes import EventType
from env_server.model.ports import Handle
from env_server.model.timelines import ClockMode
from env_server.pipeline.parts import Parts
from env_server.pipeline.timekeeping.arrivals import Arrivals
from env_server.pipeline.timekeeping.clocks import Clocks
from env_server.timeline import facts
from env_server.timeline.control import arrive
from env_server.timeline.ticks import plan_tick
from env_server.timeline.timeline import Due, Timeline

FULL_RETRY_S: Final = 1.0
"""After how long it is tried again what a full disk has refused."""
_FIRING_BYTES: Final = 256
"""Of a firing in a record, without its payload, roughly."""
_LOOKS_MAX: Final = 512
"""Clocks that are looked at in one step; each firing needs a look."""
_SLEEP_NS_MAX: Final = 3_600_000_000_000
_SLEEP_NS_MIN: Final = 1_000_000
"""A realtime clock is looked at so often at most, whatever its timers ask for."""


class Running:
    """Moves the clocks of one world."""

    def __init__(self, parts: Parts, rested: Callable[[Timeline], None]) -> None:
        """`rested` is told of event-driven clocks that fire nothing more for now, or are gone."""
        self._rested = rested
        self._tree = parts.tree
        self._own = parts.own
        self._commits = parts.commits
        self._admission = parts.admission
        self._clock = parts.clock
        self._limits = parts.limits
        self.clocks = Clocks(parts, self.stir)
        self.arrivals = Arrivals(self.clocks)
        #: What realtime clocks showed when they were first looked at in this step; what is due later waits.
        self._looked: dict[int, int] = {}
        #: Clocks that may have something to do, in the order of their turns.
        self._stirred: dict[int, Timeline] = {}
        #: Clocks whose next change waits for a key, and that key with its environment's path.
        self._blocked: dict[int, tuple[str, str]] = {}
        self._alarms: dict[int, Handle] = {}
        self._retry: Handle | None = None
        self._is_scheduled = self._rests = self._has_stopped = False
        #: Whether there is no room on the disk to go on.
        self.is_full = False

    def stir(self, timeline: Timeline) -> None:
        """Something has changed for the clock: it is looked at before long."""
        self._stirred[timeline.number] = timeline
        if not (self._is_scheduled or self._rests):
            self._is_scheduled = True
            self._clock.call_soon(self._begin)

    @property
    def is_under_way(self) -> bool:
        """Whether a clock goes on, or is about to."""
        return bool(self._stirred or self._blocked) or any(timeline.runs for timeline in self.clocks.by_number.values())

    @property
    def is_at_work(self) -> bool:
        """Whether a clock has something to do before others may rely on what it has told."""
        return bool(self._stirred or self._blocked)

    def blocked_by(self, timeline: Timeline) -> tuple[str, str] | None:
        """The path and the key that the clock's next change waits for; None = for nothing."""
        return self._blocked.get(timeline.number)

    def delay_of_bound(self, timeline: Timeline, ns: int) -> int | None:
        """Nanoseconds of the machine until the clocks above let it go so far; None = one must change before."""
        clocks = self.clocks
        above, lookahead_ns = clocks.above(timeline), timeline.declaration.lookahead_ns
        if above is None or lookahead_ns is None:
            return 0
        needed, above_ns = ns - lookahead_ns, clocks.read(above)
        if needed <= above_ns:
            return 0
        held = self.delay_of_bound(above, needed) if above.runs else None
        return None if held is None else max(held, above.delay_to(needed, above_ns))

    def stop(self) -> None:
        """No clock goes on any more; whoever waits is called."""
        self._has_stopped = True
        if self._retry is not None:
            self._retry.cancel()
        for alarm in self._alarms.values():
            alarm.cancel()
        self._stirred.clear()
        self.arrivals.end()

    def go_on(self) -> None:
        """Lets all clocks that were stirred go as far as they may, but not for long."""
        if self._rests or self._has_stopped or not self._stirred:
            return
        self._go_a_slice()
        self.arrivals.tell()  # also of those who arrived while another one has far to go

    def _go_a_slice(self) -> None:
        self._looked.clear()
        room, bytes_left = self._limits.timer_slice_max, self._limits.timer_slice_bytes_max
        for _ in range(_LOOKS_MAX):
            if not self._stirred:
                return
            number, timeline = next(iter(self._stirred.items()))
            del self._stirred[number]
            due = self._next(timeline)
            if due is None:
                continue
            if not room or bytes_left <= 0:
                self._stirred[number] = timeline
                self._rest()
                return
            if self._is_refused(due):
                self._stirred[number] = timeline
                return
            room -= 1
            bytes_left -= _size(due)
            self._fire(timeline, due)
        if self._stirred:
            self._rest()

    def _begin(self) -> None:
        self._is_scheduled = False
        self.go_on()

    def _rest(self) -> None:
        """Goes on when everything so far is on the disk."""
        self._rests = True
        self._commits.touch()
        self._commits.when_seen(lambda: self._clock.call_soon(self._wake))

    def _wake(self) -> None:
        self._rests = False
        self.go_on()

    def _is_refused(self, due: Due) -> bool:
        """Whether there is no room for a firing; then this is tried again in a while."""
        self.is_full = self._admission.refusal(1, _size(due)) is not None
        if self.is_full:
            self._rests = True
            self._retry = self._clock.call_later(FULL_RETRY_S, self._wake)
        return self.is_full

    def _next(self, timeline: Timeline) -> Due | None:
        """The timer that fires next; without one the clock goes as far as it may, and waits for what it must."""
        clocks = self.clocks
        if timeline.declaration.mode is ClockMode.EVENT_DRIVEN:
            self._rested(timeline)
        if not clocks.lives(timeline):
            self._cancel_alarm(timeline)
            return None
        if timeline.number in self._blocked or timeline.stands:
            self._cancel_alarm(timeline)
            return None
        now_ns, bound_ns = self._look(timeline), clocks.bound(timeline)
        goal_ns, first = timeline.goal(now_ns, bound_ns), timeline.first
        if timeline.state.skipping and timeline.state.target_ns is not None and now_ns < goal_ns:
            self._move_quietly(timeline, goal_ns)
            now_ns = goal_ns
        if first is not None and first.timer.due_ns <= goal_ns:
            return first
        target_ns = timeline.state.target_ns
        if target_ns is not None and goal_ns >= target_ns:
            self._change(timeline, "", lambda: self._arrive(timeline))
            return None
        if goal_ns > now_ns:
            self._move_quietly(timeline, goal_ns)
        self._wait(timeline, bound_ns)
        return None

    def _look(self, timeline: Timeline) -> int:
        """What the clock shows in this step."""
        now_ns = self.clocks.read(timeline)
        if timeline.runs:
            now_ns = max(self._looked.setdefault(timeline.number, now_ns), timeline.state.now_ns)
        return now_ns

    def _move_quietly(self, timeline: Timeline, now_ns: int) -> None:
        """The clock goes on as far as it is let, which is no change of its own."""
        self.clocks.move(timeline, now_ns)
        self._commits.touch()

    def _fire(self, timeline: Timeline, due: Due) -> None:
        node = self._tree.nodes.by_number[due.key[0]]
        self._change(timeline, due.key[1], lambda: self._tick(timeline, due), number=node.number)

    def _change(self, timeline: Timeline, key: str, effect: Callable[[], bool], number: int = 0) -> None:
        """Makes a change of the clock, behind whoever holds its key; the clock is looked at again afterwards."""
        number = number or timeline.number
        self._blocked[timeline.number] = (self._tree.nodes.by_number[number].path, key)

        def apply() -> bool:
            del self._blocked[timeline.number]
            if self._has_stopped or not self.clocks.lives(timeline):
                return False
            self.stir(timeline)
            return effect()

        self._own.make([(number, key)], apply)

    def _tick(self, timeline: Timeline, due: Due) -> bool:
        """Fires the timer if it is still the first one that is due."""
        clocks, tree = self.clocks, self._tree
        if timeline.stands or timeline.first != due:
            return False
        now_ns = clocks.read(timeline)
        if due.timer.due_ns > timeline.goal(now_ns, clocks.bound(timeline)):
            return False
        now_ns = max(now_ns, due.timer.due_ns)
        if now_ns > timeline.state.now_ns:
            clocks.move(timeline, now_ns)
        late_ns, order = timeline.late_ns(self._limits.timer_late_ms_max), clocks.timers.next_order()
        tick = plan_tick(due.timer, now_ns, late_ns, order)
        if tick.next is None:
            clocks.timers.drop(due.key)
        else:
            clocks.timers.set(timeline, due.key, tick.next)
        if not tick.fires:
            self._commits.touch()
            return False
        node = tree.nodes.by_number[due.key[0]]
        told = facts.tell_firing(due.timer, tick, is_skipped=timeline.state.skipping and tick.due_ns < now_ns)
        tree.row(node, EventType.TIMER_FIRED, due.key[1], told, 0)
        return True

    def _arrive(self, timeline: Timeline) -> bool:
        """The clock is where it was to go, unless something else is due before."""
        state, first, clocks = timeline.state, timeline.first, self.clocks
        if state.target_ns is None or (first is not None and first.timer.due_ns <= state.target_ns):
            return False
        bound_ns = clocks.bound(timeline)
        if bound_ns is not None and bound_ns < state.target_ns and clocks.read(timeline) < state.target_ns:
            return False
        clocks.change(timeline, arrive(state))
        clocks.tell_change(timeline)
        return True

    def _wait(self, timeline: Timeline, bound_ns: int | None) -> None:
        """The clock is looked at again when it will have something to do, or when one changes that holds it back."""
        self._cancel_alarm(timeline)
        wanted = self._find_wanted(timeline)
        if bound_ns is not None and any(ns > bound_ns for ns in wanted):
            self.clocks.hold(timeline)
        delays = [delay for ns in wanted if (delay := self._delay_to(timeline, ns)) is not None]
        if delays:
            delay_s = max(min(*delays, _SLEEP_NS_MAX), _SLEEP_NS_MIN) / 1e9
            self._alarms[timeline.number] = self._clock.call_later(delay_s, lambda: self.stir(timeline))

    def _find_wanted(self, timeline: Timeline) -> list[int]:
        """Times at which the clock has something to do."""
        target_ns, first = timeline.state.target_ns, timeline.first
        wanted = [] if target_ns is None else [target_ns]
        if first is not None and (timeline.runs or (target_ns is not None and not timeline.state.skipping)):
            wanted.append(first.timer.due_ns)
        return wanted

    def _delay_to(self, timeline: Timeline, ns: int) -> int | None:
        """Nanoseconds of the machine until the clock shows a time that it wants; None = not before a change."""
        held = self.delay_of_bound(timeline, ns)
        target_ns = timeline.state.target_ns
        if held is None or (target_ns is not None and ns <= target_ns):
            return held
        return max(held, timeline.delay_to(ns, self.clocks.read(timeline)))

    def _cancel_alarm(self, timeline: Timeline) -> None:
        alarm = self._alarms.pop(timeline.number, None)
        if alarm is not None:
            alarm.cancel()


def _size(due: Due) -> int:
    payload = due.timer.payload
    return _FIRING_BYTES + (len(payload.text) if payload is not None else 0)
