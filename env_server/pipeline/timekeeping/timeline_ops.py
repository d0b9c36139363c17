"""Ops on clocks and timers: what each checks, and what it does to the world."""

from collections.abc import Callable

from env_server.model.changes import EventType
from env_server.model.errors import Exhausted, InvalidRequest, NotFound, Reason
from env_server.model.frames import Written
from env_server.model.limits import Limits
from env_server.model.names import check_count, check_segment
from env_server.model.operations import Code, ControlClock, Delete, SetTimer
from env_server.model.timelines import Timer
from env_server.model.values import INT_MAX, NOTHING, check_document
from env_server.pipeline.frames.effects import Effects
from env_server.pipeline.timekeeping.clocks import Clocks
from env_server.state_tree.nodes import Node
from env_server.state_tree.tree import Tree
from env_server.timeline import facts
from env_server.timeline.control import check_time, plan_control
from env_server.timeline.timeline import Timeline


class TimelineOps:
    """Serves SET_TIMER, CANCEL_TIMER and CONTROL_CLOCK among the effects of a world."""

    def __init__(
        self, tree: Tree, clocks: Clocks, effects: Effects, stir: Callable[[Timeline], None], limits: Limits
    ) -> None:
        self._tree = tree
        self._clocks = clocks
        self._stir = stir
        self._limits = limits
        effects.serve_at(Code.SET_TIMER, self._set)
        effects.serve_at(Code.CANCEL_TIMER, self._cancel)
        effects.serve_at(Code.CONTROL_CLOCK, self._control)

    def _set(self, node: Node, name: str, asked: SetTimer) -> Written:
        """Sets a timer, or sets it anew, on the nearest clock."""
        clocks, limits, tree = self._clocks, self._limits, self._tree
        timers = clocks.timers
        check_segment(name, limits)
        timeline = clocks.find(node.path)
        due_ns = self._due(asked, clocks.read(timeline))
        check_time(asked.every_ns, "set_timer.every_ns")
        if asked.every_ns < 0:
            raise InvalidRequest(Reason.INVALID_FIELD, "set_timer.every_ns", "must not be negative")
        if asked.payload is not None:
            check_count(len(asked.payload.text), "timer_payload_bytes_max", limits)
            check_document(asked.payload, limits, "set_timer.payload_json")
        is_there = timers.has((node.number, name))
        if is_there and asked.if_absent:
            return Written(tree.revision, 0, changed=False)
        if not is_there and timers.count >= limits.timers_max:
            problem = f"{timers.count} timers wait, as many as may"
            raise Exhausted.of(Reason.TIMER_QUOTA, "timers_max", limits.timers_max, problem, limits.retry_delay_ms)
        timer = Timer(name, due_ns, timers.next_order(), asked.every_ns, asked.missed, asked.payload)
        timers.set(timeline, (node.number, name), timer)
        tree.row(node, EventType.TIMER_SET, name, facts.tell_setting(timer), 0)
        return Written(tree.revision + 1, 0)

    def _due(self, asked: SetTimer, now_ns: int) -> int:
        if (asked.at_ns is None) == (asked.after_ns is None):
            raise InvalidRequest(Reason.INVALID_FIELD, "set_timer.due", "must be at_ns or after_ns")
        if asked.at_ns is not None:
            check_time(asked.at_ns, "set_timer.at_ns")
            return asked.at_ns
        assert asked.after_ns is not None
        check_time(asked.after_ns, "set_timer.after_ns")
        if asked.after_ns < 0:
            raise InvalidRequest(Reason.INVALID_FIELD, "set_timer.after_ns", "must not be negative")
        if now_ns + asked.after_ns > INT_MAX:
            raise InvalidRequest(Reason.INVALID_FIELD, "set_timer.after_ns", "leads beyond 64 bits")
        return now_ns + asked.after_ns

    def _cancel(self, node: Node, name: str, asked: Delete) -> Written:
        check_segment(name, self._limits)
        timers = self._clocks.timers
        if not timers.has((node.number, name)):
            if asked.if_present:
                return Written(self._tree.revision, 0, changed=False)
            raise NotFound(Reason.TIMER_NOT_FOUND, path=node.path, timer=name)
        timers.drop((node.number, name))
        self._tree.row(node, EventType.TIMER_CANCELLED, name, NOTHING, 0)
        return Written(self._tree.revision + 1, 0)

    def _control(self, node: Node, key: str, asked: ControlClock) -> Written:
        if key:
            raise InvalidRequest(Reason.INVALID_FIELD, "key", "must be empty for what controls a clock")
        clocks, tree = self._clocks, self._tree
        timeline = clocks.by_number.get(node.number)
        if timeline is None:
            raise NotFound(Reason.CLOCK_NOT_FOUND, path=node.path)
        state = plan_control(timeline, clocks.read(timeline), clocks.bound(timeline), asked, node.path)
        if state is None:
            return Written(tree.revision, 0, changed=False)
        clocks.change(timeline, state)
        self._stir(timeline)
        clocks.tell_change(timeline)
        return Written(tree.revision + 1, 0)
