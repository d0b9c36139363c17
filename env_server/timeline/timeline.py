"""A clock and the timers that wait on it. Whoever drives it says what the machine's time is, and when to go on."""

from heapq import heapify, heappop, heappush, heapreplace
from math import ceil
from typing import Final, NamedTuple

from env_server.model.timelines import ClockDeclaration, ClockMode, ClockState, Timer
from env_server.model.values import INT_MAX
from env_server.timeline.timer_queue import TimerQueue

_NS_A_MS: Final = 1_000_000
_STALE_MIN: Final = 64
"""Places that are nobody's first timer any more stay in the queue until so many, and half of all, are such."""

TimerKey = tuple[int, str]
"""The number of the environment whose timer it is, and the timer's name."""


class Due(NamedTuple):
    """The first timer of a clock."""

    key: TimerKey
    timer: Timer


class Saved(NamedTuple):
    """Where a clock stood, for `Timeline.restore`."""

    state: ClockState
    base_ns: int
    anchor_ns: int


class Timeline:
    """The clock of one environment: where it stands, and its timers in the order in which they are due.

    A manual clock stands at `state.now_ns`. A realtime clock that is not paused goes on from `base_ns`, where it was at
    the machine's time `anchor_ns`; its `state.now_ns` is the greatest time that anybody may have been told.
    """

    __slots__ = ("_queue", "anchor_ns", "base_ns", "declaration", "number", "state", "timer_count", "timers")

    def __init__(self, number: int, declaration: ClockDeclaration, state: ClockState, monotonic_ns: int) -> None:
        self.number = number
        self.declaration = declaration
        self.state = state
        self.base_ns, self.anchor_ns = state.now_ns, monotonic_ns
        #: By the number of the environment; there is none without a timer.
        self.timers: dict[int, TimerQueue] = {}
        self.timer_count = 0
        self._queue: list[tuple[int, int, int]] = []

    @property
    def runs(self) -> bool:
        """Whether it goes on by itself."""
        return self.declaration.mode is ClockMode.REALTIME and not self.state.paused

    @property
    def stands(self) -> bool:
        """Whether it fires nothing: it is paused, and on no step."""
        return self.state.paused and self.state.target_ns is None

    @property
    def is_under_way(self) -> bool:
        """Whether it is on its way to somewhere, or on a step."""
        return self.state.target_ns is not None or self.state.stepping

    def read(self, monotonic_ns: int, bound_ns: int | None = None) -> int:
        """The time that it shows; it goes no further than `bound_ns`, but never back."""
        state = self.state
        if not self.runs:
            return state.now_ns
        elapsed_ns = max(monotonic_ns - self.anchor_ns, 0) * state.rate
        reached = self.base_ns + int(min(elapsed_ns, INT_MAX))
        return max(min(reached, INT_MAX if bound_ns is None else min(bound_ns, INT_MAX)), state.now_ns)

    def go_on_from(self, now_ns: int, monotonic_ns: int) -> None:
        """What has passed of the machine's time until now counts no more; nobody is told of it."""
        self.base_ns, self.anchor_ns = now_ns, monotonic_ns

    def save(self) -> Saved:
        """Where it stands, without its timers."""
        return Saved(self.state, self.base_ns, self.anchor_ns)

    def restore(self, saved: Saved) -> None:
        """Stands there again."""
        self.state, self.base_ns, self.anchor_ns = saved

    def goal(self, now_ns: int, bound_ns: int | None) -> int:
        """How far it may go now: to its target, if it has one, and not beyond the bound; a jump is whole or none."""
        target_ns = self.state.target_ns
        goal_ns = now_ns if target_ns is None else max(now_ns, target_ns)
        if bound_ns is None or goal_ns <= bound_ns:
            return goal_ns
        return now_ns if self.state.skipping else max(now_ns, bound_ns)

    def delay_to(self, due_ns: int, now_ns: int) -> int:
        """Nanoseconds of the machine until a running clock shows `due_ns`; at least 1."""
        return max(ceil(min((due_ns - now_ns) / self.state.rate, INT_MAX)), 1)

    def late_ns(self, late_ms_max: int) -> int:
        """How late a tick may be without being missed."""
        if self.declaration.mode is not ClockMode.REALTIME:
            return 0
        return int(min(late_ms_max * _NS_A_MS * self.state.rate, INT_MAX))

    def put(self, key: TimerKey, timer: Timer) -> None:
        """A timer waits, in the place of one of this name."""
        number, name = key
        queue = self.timers.get(number)
        if queue is None:
            queue = self.timers[number] = TimerQueue()
        self.timer_count += name not in queue.by_name
        queue.put(timer)
        if queue.first is timer:
            self._line_up(number, timer)

    def drop(self, key: TimerKey) -> Timer:
        """A timer waits no more."""
        number, name = key
        queue = self.timers[number]
        timer = queue.drop(name)
        self.timer_count -= 1
        if not queue:
            del self.timers[number]
        return timer

    def get(self, key: TimerKey) -> Timer | None:
        """The timer of that name, if it waits here."""
        queue = self.timers.get(key[0])
        return None if queue is None else queue.by_name.get(key[1])

    def put_all(self, number: int, queue: TimerQueue) -> None:
        """The timers of an environment wait that has none here."""
        first = queue.first
        assert first is not None
        self.timers[number] = queue
        self.timer_count += len(queue)
        self._line_up(number, first)

    def drop_all(self, number: int) -> TimerQueue:
        """No timer of the environment waits any more; takes no longer for many."""
        queue = self.timers.pop(number)
        self.timer_count -= len(queue)
        return queue

    @property
    def first(self) -> Due | None:
        """The timer that is due first."""
        queue, timers = self._queue, self.timers
        while queue:
            due_ns, order, number = queue[0]
            waiting = timers.get(number)
            timer = None if waiting is None else waiting.first
            if timer is None:
                heappop(queue)
            elif timer.due_ns == due_ns and timer.order == order:
                return Due((number, timer.name), timer)
            else:
                heapreplace(queue, (timer.due_ns, timer.order, number))
        return None

    def _line_up(self, number: int, timer: Timer) -> None:
        """Each environment has a place that is not behind its first timer; some have several."""
        queue = self._queue
        heappush(queue, (timer.due_ns, timer.order, number))
        if len(queue) > _STALE_MIN + 2 * len(self.timers):
            firsts = [(number, first) for number, waiting in self.timers.items() if (first := waiting.first)]
            queue[:] = [(first.due_ns, first.order, number) for number, first in firsts]
            heapify(queue)
