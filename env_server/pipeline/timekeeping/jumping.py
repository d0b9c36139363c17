"""What makes event-driven clocks go on: each jumps when its participants are idle and nothing they hear is on its way.

A clock is looked at when a report has come, so that it jumps in the commit of the ops before that, and in the loop step
after something else has changed for it: an event that a participant hears, a timer, the clock above. When only the
world holds it, it is looked at again as groups become durable and ops end; what ends without either is found by looking
again after a while.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Final

from env_server.model.changes import Changes
from env_server.model.clock_reports import ClockReport, Reporter
from env_server.model.ports import Handle
from env_server.model.views import View
from env_server.pipeline.parts import Parts
from env_server.pipeline.timekeeping.hearings import may_be_told
from env_server.pipeline.timekeeping.participation import Participation
from env_server.pipeline.timekeeping.running import FULL_RETRY_S, Running
from env_server.timeline.idleness import Jump, plan_jump
from env_server.timeline.timeline import Timeline

_HOLDERS_TOLD_MAX: Final = 10
_JUMP_BYTES: Final = 256
"""Of a jump in a record, roughly."""
_LOOKS_MAX: Final = 512
"""Clocks that are looked at in one step."""
_SLEEP_S_MAX: Final = 3600.0
_SLEEP_S_MIN: Final = 0.001


class Jumping:
    """Moves the event-driven clocks of one world. `is_quiet`: nothing that may concern one is on its way in it."""

    def __init__(self, parts: Parts, running: Running, is_quiet: Callable[[], bool]) -> None:
        self._running = running
        self._clocks = running.clocks
        self._own = parts.own
        self._admission = parts.admission
        self._is_quiet = is_quiet
        self._clock = parts.clock
        self._limits = parts.limits
        self._participation = Participation(parts, running.clocks, self.stir)
        self._stirred: dict[int, Timeline] = {}
        #: Clocks whose participants are idle, in a world that is not quiet.
        self._waiting: dict[int, Timeline] = {}
        self._alarms: dict[int, Handle] = {}
        self._is_scheduled = self._has_stopped = False
        self._look_later: Handle | None = None

    @property
    def is_under_way(self) -> bool:
        """Whether a clock may jump without being asked again."""
        return bool(self._stirred or self._waiting)

    def stir(self, timeline: Timeline) -> None:
        """Something has changed for the clock: it is looked at in the next loop step."""
        self._stirred[timeline.number] = timeline
        self._schedule()

    def publish(self, changes: Changes) -> None:
        """A group is durable: each once, in order."""
        self._participation.publish(changes)
        self.look_again()

    def look_again(self) -> None:
        """Something in the world has ended: perhaps it is quiet now."""
        if not self._waiting:
            return
        if not self._is_quiet():  # one look for all of them
            self._set_look_later()
            return
        waiting, self._waiting = self._waiting, {}
        for timeline in waiting.values():
            self.stir(timeline)

    def concerns(self, under_way: Iterable[Changes], durable_number: int) -> bool:
        """Whether clocks have to wait for groups to be published; see Participation.concerns."""
        return self._participation.concerns(under_way, durable_number)

    def report(self, report: ClockReport, reporter: Reporter) -> None:
        """Takes a report, and lets the clock jump, if that was all: in the same group as the ops before the report.

        Raises as Participation.report.
        """
        self._participation.report(report, reporter)
        self._look()

    def end_reports(self, reporter: Reporter) -> None:
        """What this reporter has said counts no more."""
        self._participation.end_reports(reporter)

    def end_behind(self, reporter: Reporter, refusals: int) -> None:
        """What this reporter has said without knowing of so many frames with refused ops counts no more."""
        self._participation.end_behind(reporter, refusals)

    def end_denied(self) -> None:
        """A grant was withdrawn: ends reports of groups that may not write any more where their participants are."""
        self._participation.end_denied()

    def let_go(self) -> None:
        """Of all that it holds, once it was stopped; nothing else may be called afterwards."""
        self._participation.let_go()
        vars(self).clear()

    def stop(self) -> None:
        """No clock jumps any more."""
        self._has_stopped = True
        self._stirred.clear()
        self._waiting.clear()
        for handle in self._alarms.values():
            handle.cancel()
        self._alarms.clear()
        if self._look_later is not None:
            self._look_later.cancel()

    def find_place(self, timeline: Timeline) -> str:
        """The environment whose entries are the participants of the clock."""
        return self._participation.of(timeline).place

    def describe_holders(self, timeline: Timeline, view: View | None) -> list[str]:
        """Why the clock does not jump, for people with this view; [] = nothing holds it."""
        attended = self._participation.of(timeline)
        participants = attended.participants
        if attended.is_overfull:
            return [f"{attended.place} holds more entries than participants_max = {self._limits.participants_max}"]
        if attended.unread:
            return [f"{len(attended.unread)} more in {attended.place} are to be looked at"]
        if not len(participants):
            return [f"it has no participants in {attended.place}"]
        if not participants.all_idle:
            return participants.describe_holders(_HOLDERS_TOLD_MAX, partial(may_be_told, view))
        if not self._is_quiet():
            return ["changes are on their way in the world"]
        jump = self._plan(timeline)
        if jump is None:
            return ["nothing is due"]
        if not jump.is_held:
            return []
        first = timeline.first
        is_seen = view is None or first is None or view.sees(self._clocks.path_of(first.key[0]))
        where = f"to {jump.to_ns} ns" if is_seen else "on"
        return [f"the clock above does not let it go {where}"]

    def _look(self) -> None:
        self._is_scheduled = False
        if self._has_stopped:
            return
        for _ in range(min(len(self._stirred), _LOOKS_MAX)):
            timeline = self._stirred.pop(next(iter(self._stirred)))
            self._consider(timeline)
            if timeline.number in self._waiting:
                self._put_off()
                break
        if self._stirred:
            self._schedule()

    def _put_off(self) -> None:
        """The world is not quiet, for none of them."""
        waiting = [timeline for timeline in self._stirred.values() if self._clocks.lives(timeline)]
        for timeline in waiting:
            self._waiting[timeline.number] = self._stirred.pop(timeline.number)

    def _schedule(self) -> None:
        if not (self._is_scheduled or self._has_stopped):
            self._is_scheduled = True
            self._clock.call_soon(self._look)

    def _consider(self, timeline: Timeline) -> None:
        """Lets the clock jump, if it may."""
        self._cancel_alarm(timeline)
        if not self._clocks.lives(timeline):
            self._participation.forget(timeline)
            return
        state = timeline.state
        if state.target_ns is not None or (state.paused and not state.stepping) or not self._may_go(timeline):
            return
        if not self._is_quiet():
            self._wait(timeline)
            return
        jump = self._plan(timeline)
        if jump is not None and not jump.is_held:
            self._make(timeline, lambda: self._jump(timeline, jump.to_ns))
            return
        if jump is not None:
            self._await_above(timeline, jump)
        if timeline.state.stepping:
            self._make(timeline, lambda: self._end_step(timeline))

    def _may_go(self, timeline: Timeline) -> bool:
        """Whether its participants let the clock go on."""
        attended = self._participation.of(timeline)
        if attended.is_overfull:
            return False
        if not self._participation.has_read(timeline):
            self.stir(timeline)
            return False
        if not len(attended.participants):
            return timeline.state.stepping  # nobody is there to be waited for
        return attended.participants.all_idle

    def _plan(self, timeline: Timeline) -> Jump | None:
        first, participants = timeline.first, self._participation.of(timeline).participants
        due_ns = None if first is None else first.timer.due_ns
        return plan_jump(timeline.state.now_ns, due_ns, participants.earliest_wake_ns, self._clocks.bound(timeline))

    def _make(self, timeline: Timeline, effect: Callable[[], bool]) -> None:
        """Changes the clock as a change of the world's own; later, without room on the disk."""
        if self._admission.refusal(1, _JUMP_BYTES) is None:
            self._own.make([(timeline.number, "")], effect)
            self._running.go_on()  # what is due there fires in the same group
        else:
            self._cancel_alarm(timeline)
            self._set_alarm(timeline, FULL_RETRY_S)

    def _jump(self, timeline: Timeline, to_ns: int) -> bool:
        """Goes there, as a change of the world's own."""
        state, first = replace(timeline.state, now_ns=to_ns, stepping=False), timeline.first
        if timeline.state.stepping and first is not None and first.timer.due_ns <= to_ns:
            state = replace(state, target_ns=to_ns)  # whoever asked for it waits until they have fired
        self._clocks.change(timeline, state)
        self._clocks.tell_change(timeline)
        self._running.stir(timeline)
        return True

    def _end_step(self, timeline: Timeline) -> bool:
        """Nothing is due, or the clock above does not let it: that was the step."""
        self._clocks.change(timeline, replace(timeline.state, stepping=False))
        self._clocks.tell_change(timeline)
        self._running.stir(timeline)
        return True

    # -- waiting --

    def _wait(self, timeline: Timeline) -> None:
        self._waiting[timeline.number] = timeline
        self._set_look_later()

    def _set_look_later(self) -> None:
        if self._look_later is None:
            self._look_later = self._clock.call_later(self._limits.participant_wait_ms / 1000, self._look_after_a_while)

    def _look_after_a_while(self) -> None:
        self._look_later = None
        self.look_again()

    def _await_above(self, timeline: Timeline, jump: Jump) -> None:
        """Looks at the clock again when the one above is controlled, or, if that runs, has come far enough."""
        self._clocks.hold(timeline)
        delay_ns = self._running.delay_of_bound(timeline, jump.to_ns)
        if delay_ns is not None:
            self._set_alarm(timeline, max(delay_ns / 1e9, _SLEEP_S_MIN))

    def _set_alarm(self, timeline: Timeline, delay_s: float) -> None:
        self._alarms[timeline.number] = self._clock.call_later(min(delay_s, _SLEEP_S_MAX), lambda: self.stir(timeline))

    def _cancel_alarm(self, timeline: Timeline) -> None:
        alarm = self._alarms.pop(timeline.number, None)
        if alarm is not None:
            alarm.cancel()
