"""The clocks and timers of a world, as its services and behaviours see them."""

from collections.abc import Callable, Iterable
from heapq import nsmallest
from typing import Any, NamedTuple

from env_server.model.changes import Changes
from env_server.model.clock_reports import ClockReport, Reporter
from env_server.model.errors import ArrivalUnseen, WorldError
from env_server.model.timelines import ClockDeclaration, ClockMode, ClockState, Timer
from env_server.pipeline.frames.effects import Effects
from env_server.pipeline.parts import Parts
from env_server.pipeline.timekeeping.jumping import Jumping
from env_server.pipeline.timekeeping.loading import StoredTime
from env_server.pipeline.timekeeping.running import Running
from env_server.pipeline.timekeeping.timeline_ops import TimelineOps
from env_server.state_tree.visibility import check_seen
from env_server.timeline.timeline import Timeline


class ClockSeen(NamedTuple):
    """A clock at one moment."""

    path: str
    """Of the environment that owns it."""
    declaration: ClockDeclaration
    state: ClockState
    timers: int
    next_due_ns: int | None
    held_by: tuple[str, ...]
    """Why it does not go on, for people."""
    participants_path: str = ""
    """Event-driven: where its participants are; "" = where the group that asks may not look."""


class Timekeeping:
    """The simulated time of one world, from what was stored of it on."""

    ended: WorldError | None = None
    """Why nobody is told of arrivals any more; None = they are."""

    def __init__(
        self,
        parts: Parts,
        effects: Effects,
        stored: StoredTime,
        is_quiet: Callable[[], bool],
    ) -> None:
        """`is_quiet` tells whether nothing else is on its way in the world."""
        self._tree = tree = parts.tree
        self._running = running = Running(parts, self._rested)
        self._is_world_quiet = is_quiet
        self._jumping = Jumping(parts, running, self._is_quiet)
        self._clocks = clocks = running.clocks
        clocks.load(stored)
        tree.timing = clocks
        TimelineOps(tree, clocks, effects, running.stir, parts.limits)

    @property
    def is_under_way(self) -> bool:
        """Whether a clock goes on by itself, or has something to do."""
        return self._running.is_under_way or self._jumping.is_under_way

    def go_on(self) -> None:
        """Ops have had their effect: clocks go as far as those want."""
        self._running.go_on()
        self._jumping.look_again()

    def publish(self, changes: Changes) -> None:
        """A group is durable: each once, in order."""
        self._jumping.publish(changes)

    def concerns(self, under_way: Iterable[Changes], durable_number: int) -> bool:
        """Whether those who take part in clocks may be concerned by groups that are not published yet."""
        return self._jumping.concerns(under_way, durable_number)

    def report(self, report: ClockReport, reporter: Reporter) -> None:
        """Takes what is said of a participant of an event-driven clock.

        Raises:
            WorldError: it does not count; see Participation.report.
        """
        self._jumping.report(report, reporter)

    def end_reports(self, reporter: Reporter) -> None:
        """What this reporter has said counts no more."""
        self._jumping.end_reports(reporter)

    def end_behind(self, reporter: Reporter, refusals: int) -> None:
        """What this reporter has said without knowing of so many frames with refused ops counts no more."""
        self._jumping.end_behind(reporter, refusals)

    def end_denied(self) -> None:
        """A grant was withdrawn: so may be what groups have reported."""
        self._jumping.end_denied()

    def stop(self) -> None:
        """No clock goes on any more; realtime ones are kept where they are. Whoever waits for an arrival is called."""
        self.ended = self.ended or ArrivalUnseen()
        for timeline in self._clocks.by_number.values():
            self._clocks.tell(timeline)
        self._running.stop()
        self._jumping.stop()

    def list_containers(self) -> list[Any]:
        """What may be large of all that its parts hold; may be emptied in slices, once they were stopped."""
        return list(self._clocks.timers.containers)

    def let_go(self) -> None:
        """Of all that its parts hold, once they were stopped: they refer to one another, and to the world.

        Nothing else may be called afterwards.
        """
        self._jumping.let_go()
        for part in (self._running, self._clocks):
            vars(part).clear()

    def abandon(self, gone: WorldError) -> None:
        """The world is gone: nothing of it counts any more. Whoever waits for an arrival is called."""
        self.ended = gone
        self._running.stop()
        self._jumping.stop()

    def tell_time(self, path: str) -> int | None:
        """What the nearest clock of an environment shows, for an answer that waits for the open group; None = none.

        A restart does not set a clock behind what was told.
        """
        return self._clocks.tell_at(self._tree.nodes.by_path.get(path))

    def see(self, path: str, group: str = "") -> ClockSeen:
        """The nearest clock of an environment, for an answer that waits for the open group.

        Raises:
            DeniedView: the group that asks may not look there.
            InvalidRequest: INVALID_PATH.
            NotFound: ENVIRONMENT_NOT_FOUND, CLOCK_NOT_FOUND.
        """
        self._check_seen(group, path)
        clocks = self._clocks
        timeline = clocks.find(path)
        clocks.tell(timeline)
        timers, next_due_ns = self._count_timers(timeline, group)
        return ClockSeen(
            clocks.node_of(timeline).path,
            timeline.declaration,
            timeline.state,
            timers,
            next_due_ns,
            tuple(self._held_by(timeline, group)),
            self._find_place(timeline, group),
        )

    def list_timers(self, path: str, after: str = "", group: str = "", limit: int | None = None) -> list[Timer]:
        """The timers of an environment with names above `after`, by name, the first `limit` of them.

        A few of many are found without putting all in order.

        Raises:
            DeniedView: the group that asks may not look there.
            InvalidRequest: INVALID_PATH.
            NotFound: ENVIRONMENT_NOT_FOUND.
        """
        self._check_seen(group, path)
        number = self._tree.nodes.find(path).number
        found = self._clocks.timers.of(number)
        later = (name for name in found if name > after)
        names = sorted(later) if limit is None else nsmallest(limit, later)
        return [found[name] for name in names]

    def when_arrived(self, path: str, call: Callable[[], None]) -> Callable[[], None]:
        """Calls once the nearest clock is on no way and no step any more, gone, or `ended`; returns what forgets it."""
        try:
            timeline = self._clocks.find(path)
        except WorldError:  # gone meanwhile
            call()
            return call
        self._running.arrivals.when(timeline, call)
        return lambda: self._running.arrivals.forget(timeline, call)

    def _count_timers(self, timeline: Timeline, group: str) -> tuple[int, int | None]:
        """How many timers wait, and when the first is due, of those that the group sees; by their environments."""
        if not group:
            due = timeline.first
            return timeline.timer_count, None if due is None else due.timer.due_ns
        path_of, access = self._clocks.path_of, self._tree.grants.access
        seen = [queue for number, queue in timeline.timers.items() if access(group, path_of(number))]
        dues = [timer.due_ns for queue in seen if (timer := queue.first) is not None]
        return sum(map(len, seen)), min(dues, default=None)

    def _check_seen(self, group: str, path: str) -> None:
        if group:
            check_seen(self._tree.grants, group, path)

    def _find_place(self, timeline: Timeline, group: str) -> str:
        """Where participants are, as far as a group sees it; "" = nowhere."""
        place = self._jumping.find_place(timeline) if timeline.declaration.mode is ClockMode.EVENT_DRIVEN else ""
        return place if self._sees(group, place) else ""

    def _sees(self, group: str, path: str) -> bool:
        """Whether the group that asks may look there; "" sees everything."""
        return not group or bool(self._tree.grants.access(group, path))

    def _held_by(self, timeline: Timeline, group: str) -> list[str]:
        held = []
        state, bound_ns, above = timeline.state, self._clocks.bound(timeline), self._clocks.above(timeline)
        if state.paused:
            held.append("it is paused")
        wants_ns = state.now_ns + 1 if timeline.runs else state.target_ns
        is_hidden = above is not None and not self._sees(group, self._clocks.node_of(above).path)
        if is_hidden and bound_ns is not None and wants_ns is not None and wants_ns > bound_ns:
            held.append("a clock above, which is not to be seen from here, does not let it go on")
        elif above is not None and bound_ns is not None and wants_ns is not None and wants_ns > bound_ns:
            path, above_ns = self._clocks.node_of(above).path, self._clocks.tell(above)
            held.append(f"the clock of {path} is at {above_ns} ns and lets it go to {bound_ns} ns")
        if (blocked := self._running.blocked_by(timeline)) is not None:
            place = " ".join(blocked).rstrip() if self._sees(group, blocked[0]) else "what is not to be seen from here"
            held.append(f"an operation holds {place}")
        if self._running.is_full and timeline.first is not None:
            held.append("storage is nearly full")
        if timeline.declaration.mode is ClockMode.EVENT_DRIVEN:
            view = self._tree.grants.view_of(group) if group else None
            holders = self._jumping.describe_holders(timeline, view)
            is_seen = not holders or bool(self._find_place(timeline, group))
            held += holders if is_seen else ["somebody takes part who is not to be seen from here"]
        return held

    def _is_quiet(self) -> bool:
        """Whether no clock has something to do, and nothing else is on its way in the world."""
        return not self._running.is_at_work and self._is_world_quiet()

    def _rested(self, timeline: Timeline) -> None:
        self._jumping.stir(timeline)
