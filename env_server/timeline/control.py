"""What control does to a clock: where it stands afterwards, or why that cannot be."""

import math
from dataclasses import replace

from env_server.model.errors import InvalidRequest, OutOfRange, Reason, WrongState
from env_server.model.operations import ClockAction, ControlClock
from env_server.model.timelines import ClockMode, ClockState
from env_server.model.values import INT_MAX, INT_MIN
from env_server.timeline.timeline import Timeline


def plan_control(
    timeline: Timeline, now_ns: int, bound_ns: int | None, asked: ControlClock, path: str
) -> ClockState | None:
    """The state after the op; None = it has no effect. The clock of the environment at `path` shows `now_ns`.

    A way without a timer on it, and without a bound, is gone in the op itself.

    Raises:
        InvalidRequest: INVALID_FIELD.
        WrongState: CLOCK_PAUSED, CLOCK_MODE_MISMATCH; CLOCK_ON_ITS_WAY: it cannot come after the way that it is on.
        OutOfRange: TIME_PASSED.
    """
    state = replace(timeline.state, now_ns=now_ns)
    match asked.action:
        case ClockAction.PAUSE:
            if state.paused and not timeline.is_under_way:
                return None
            return replace(state, paused=True, target_ns=None, skipping=False, stepping=False)
        case ClockAction.RESUME:
            return replace(state, paused=False) if state.paused else None
        case ClockAction.SET_RATE:
            return _set_rate(timeline, state, asked, path)
        case ClockAction.STEP:
            return _step(timeline, state, path, bound_ns)
        case _:
            return _aim(timeline, state, asked, path, bound_ns)


def check_rate(rate: float, field: str) -> None:
    """Accepts a rate.

    Raises:
        InvalidRequest: INVALID_FIELD.
    """
    if not (math.isfinite(rate) and rate > 0):
        raise InvalidRequest(Reason.INVALID_FIELD, field, "must be finite and above 0")


def check_time(ns: int, field: str) -> None:
    """Accepts a time.

    Raises:
        InvalidRequest: INVALID_FIELD.
        TypeError: it is no integer: a defect of a behaviour.
    """
    if type(ns) is not int:
        raise TypeError(f"{field} is an integer")
    if not INT_MIN <= ns <= INT_MAX:
        raise InvalidRequest(Reason.INVALID_FIELD, field, "must fit in 64 bits")


def _step(timeline: Timeline, state: ClockState, path: str, bound_ns: int | None) -> ClockState | None:
    if timeline.is_under_way:
        raise _on_its_way(state, path)
    if timeline.declaration.mode is ClockMode.EVENT_DRIVEN:
        return replace(state, stepping=True)
    first = timeline.first
    if first is None:
        return None
    return _go(timeline, replace(state, target_ns=max(state.now_ns, first.timer.due_ns)), bound_ns)


def _aim(
    timeline: Timeline, state: ClockState, asked: ControlClock, path: str, bound_ns: int | None
) -> ClockState | None:
    """Advances or skips."""
    skips = asked.action is ClockAction.SKIP_TO
    if not skips and timeline.declaration.mode is not ClockMode.MANUAL:
        raise _mismatch(timeline, path, "advanced: skip instead")
    if state.paused:
        raise WrongState(Reason.CLOCK_PAUSED, f"the clock of {path} is paused", metadata={"path": path})
    field, end_ns = f"control.{asked.action.name.lower()}_ns", _end_of(state)
    goal_ns = asked.ns
    if asked.action is ClockAction.ADVANCE_BY:
        if asked.ns < 0:
            raise InvalidRequest(Reason.INVALID_FIELD, field, "must not be negative")
        goal_ns += end_ns
    check_time(goal_ns, field)
    if goal_ns < end_ns:
        where = f"at {state.now_ns} ns" + (f", on its way to {end_ns} ns," if end_ns > state.now_ns else "")
        problem = f"the clock of {path} is {where} already: it does not go back"
        raise OutOfRange(Reason.TIME_PASSED, problem, metadata={"now_ns": str(state.now_ns), "end_ns": str(end_ns)})
    if timeline.is_under_way and (state.stepping or state.skipping is not skips):
        raise _on_its_way(state, path)
    if goal_ns == end_ns:
        return None
    return _go(timeline, replace(state, target_ns=goal_ns, skipping=skips), bound_ns)


def _go(timeline: Timeline, state: ClockState, bound_ns: int | None) -> ClockState:
    """Sets out for the target: a jump is done, and a way on which nothing is due."""
    target_ns, first = state.target_ns, timeline.first
    assert target_ns is not None
    if bound_ns is not None and bound_ns < target_ns:
        return state
    if first is None or first.timer.due_ns > target_ns:
        return arrive(state)
    return replace(state, now_ns=target_ns) if state.skipping else state


def arrive(state: ClockState) -> ClockState:
    """The state at the target."""
    assert state.target_ns is not None
    return replace(state, now_ns=max(state.now_ns, state.target_ns), target_ns=None, skipping=False)


def _set_rate(timeline: Timeline, state: ClockState, asked: ControlClock, path: str) -> ClockState | None:
    if timeline.declaration.mode is not ClockMode.REALTIME:
        raise _mismatch(timeline, path, "given a rate")
    check_rate(asked.rate, "control.rate")
    return None if asked.rate == state.rate else replace(state, rate=asked.rate)


def _end_of(state: ClockState) -> int:
    """Where it will be when it has done all that it was asked."""
    return state.now_ns if state.target_ns is None else max(state.now_ns, state.target_ns)


def _on_its_way(state: ClockState, path: str) -> WrongState:
    where = "on a step" if state.target_ns is None else f"on its way to {state.target_ns} ns"
    problem = f"the clock of {path} is {where}: wait until it has arrived, or pause it"
    return WrongState(Reason.CLOCK_ON_ITS_WAY, problem, metadata={"path": path})


def _mismatch(timeline: Timeline, path: str, what: str) -> WrongState:
    mode = timeline.declaration.mode.name.lower()
    problem = f"the clock of {path} is {mode.replace('_', '-')} and cannot be {what}"
    return WrongState(Reason.CLOCK_MODE_MISMATCH, problem, metadata={"path": path, "mode": mode})
