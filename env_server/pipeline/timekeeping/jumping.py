"""What makes event-driven clocks go on: each jumps when all its participants are idle and nothing is on its way.

A clock is looked at in the loop step after something has changed for it: a report, an event that a participant hears, a
timer, the clock above. When only the world holds it, it is looked at again as groups become durable and ops end; what
ends without either is found by looking again after a while.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Final

from env_server.model.changes import Changes
from env_server.model.clock_reports import ClockReport, Reporter
from env_server.model.limits import Limits
from env_server.model.ports import Clock, Handle
from env_server.model.views import View
from env_server.pipeline.commits.admission import Admission
from env_server.pipeline.own_changes import OwnChanges
from env_server.pipeline.timekeeping.hearings import may_be_told
from env_server.pipeline.timekeeping.participation import Participation
from env_server.pipeline.timekeeping.running import FULL_RETRY_S, Running
from env_server.state_tree.tree import Tree
from env_server.timeline.idleness import Jump, plan_jump
from env_server.timeline.line import Timeline

_HOLDERS_TOLD_MAX: Final = 10
_JUMP_BYTES: Final = 256
"""Of a jump in a record, roughly."""
_SLEEP_S_MAX: Final = 3600.0
_SLEEP_S_MIN: Final = 0.001


class Jumping:
    """Moves the event-driven clocks of one world. `is_quiet` tells whether nothing is on its way in it.

    `when_seen` as in Participation.
    """

    def __init__(
        self,
        tree: Tree,
        running: Running,
        own: OwnChanges,
        admission: Admission,
        is_quiet: Callable[[], bool],
        clock: Clock,
        limits: Limits,
        when_seen: Callable[[Callable[[], None]], None],
    ) -> None:
        self._running = running
        self._clocks = running.clocks
        self._own = own
        self._admission = admission
        self._is_quiet = is_quiet
        self._clock = clock
        self._limits = limits
        self._participation = Participation(tree, running.clocks, limits, self.stir, when_seen)
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

    def stir(self, line: Timeline) -> None:
        """Something has changed for the clock: it is looked at in the next loop step."""
        self._stirred[line.number] = line
        if not (self._is_scheduled or self._has_stopped):
            self._is_scheduled = True
            self._clock.call_soon(self._look)

    def publish(self, changes: Changes) -> None:
        """A group is durable: each once, in order."""
        self._participation.publish(changes)
        self.look_again()

    def look_again(self) -> None:
        """Something in the world has ended: perhaps it is quiet now."""
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, {}
        for line in waiting.values():
            self.stir(line)

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

    def find_place(self, line: Timeline) -> str:
        """The environment whose entries are the participants of the clock."""
        return self._participation.of(line).place

    def describe_holders(self, line: Timeline, view: View | None) -> list[str]:
        """Why the clock does not jump, for people with this view; [] = nothing holds it."""
        attended = self._participation.of(line)
        participants = attended.participants
        if attended.is_overfull:
            return [f"{attended.place} holds more entries than participants_max = {self._limits.participants_max}"]
        if not len(participants):
            return [f"it has no participants in {attended.place}"]
        if not participants.all_idle:
            return participants.describe_holders(_HOLDERS_TOLD_MAX, partial(may_be_told, view))
        if not self._is_quiet():
            return ["changes are on their way in the world"]
        jump = self._plan(line)
        if jump is None:
            return ["nothing is due"]
        if not jump.is_held:
            return []
        first = line.first
        is_seen = view is None or first is None or view.sees(self._clocks.path_of(first.key[0]))
        where = f"to {jump.to_ns} ns" if is_seen else "on"
        return [f"the clock above does not let it go {where}"]

    def _look(self) -> None:
        self._is_scheduled = False
        stirred, self._stirred = self._stirred, {}
        if not self._has_stopped:
            for line in stirred.values():
                self._consider(line)

    def _consider(self, line: Timeline) -> None:
        """Lets the clock jump, if it may."""
        self._cancel_alarm(line)
        if not self._clocks.lives(line):
            self._participation.forget(line)
            return
        state = line.state
        if state.target_ns is not None or (state.paused and not state.stepping) or not self._may_go(line):
            return
        if not self._is_quiet():
            self._wait(line)
            return
        jump = self._plan(line)
        if jump is not None and not jump.is_held:
            self._make(line, lambda: self._jump(line, jump.to_ns))
            return
        if jump is not None:
            self._await_above(line, jump)
        if line.state.stepping:
            self._make(line, lambda: self._end_step(line))

    def _may_go(self, line: Timeline) -> bool:
        """Whether its participants let the clock go on."""
        attended = self._participation.of(line)
        if attended.is_overfull:
            return False
        if not len(attended.participants):
            return line.state.stepping  # nobody is there to be waited for
        return attended.participants.all_idle

    def _plan(self, line: Timeline) -> Jump | None:
        first, participants = line.first, self._participation.of(line).participants
        due_ns = None if first is None else first.timer.due_ns
        return plan_jump(line.state.now_ns, due_ns, participants.earliest_wake_ns, self._clocks.bound(line))

    def _make(self, line: Timeline, effect: Callable[[], bool]) -> None:
        """Changes the clock as a change of the world's own; later, without room on the disk."""
        if self._admission.refusal(1, _JUMP_BYTES) is None:
            self._own.make([(line.number, "")], effect)
            self._running.go_on()  # what is due there fires in the same group
        else:
            self._cancel_alarm(line)
            self._set_alarm(line, FULL_RETRY_S)

    def _jump(self, line: Timeline, to_ns: int) -> bool:
        """Goes there, as a change of the world's own."""
        state, first = replace(line.state, now_ns=to_ns, stepping=False), line.first
        if state.paused and first is not None and first.timer.due_ns <= to_ns:
            state = replace(state, target_ns=to_ns)  # on its way until they have fired
        self._clocks.change(line, state)
        self._clocks.tell_change(line)
        self._running.stir(line)
        return True

    def _end_step(self, line: Timeline) -> bool:
        """Nothing is due, or the clock above does not let it: that was the step."""
        self._clocks.change(line, replace(line.state, stepping=False))
        self._clocks.tell_change(line)
        self._running.stir(line)
        return True

    # -- waiting --

    def _wait(self, line: Timeline) -> None:
        self._waiting[line.number] = line
        if self._look_later is None:
            self._look_later = self._clock.call_later(self._limits.participant_wait_ms / 1000, self._look_after_a_while)

    def _look_after_a_while(self) -> None:
        self._look_later = None
        self.look_again()

    def _await_above(self, line: Timeline, jump: Jump) -> None:
        """Looks at the clock again when the one above is controlled, or, if that runs, has come far enough."""
        self._clocks.hold(line)
        delay_ns = self._running.delay_of_bound(line, jump.to_ns)
        if delay_ns is not None:
            self._set_alarm(line, max(delay_ns / 1e9, _SLEEP_S_MIN))

    def _set_alarm(self, line: Timeline, delay_s: float) -> None:
        self._alarms[line.number] = self._clock.call_later(min(delay_s, _SLEEP_S_MAX), lambda: self.stir(line))

    def _cancel_alarm(self, line: Timeline) -> None:
        alarm = self._alarms.pop(line.number, None)
        if alarm is not None:
            alarm.cancel()
