"""What is done to clocks and timers, as wire messages, and how they stand, read from them."""

from __future__ import annotations

import math
from typing import TypedDict

from env_api.v1 import timeline_pb2

from ecumene.client.clocks import Clock, ClockMode, ClockState, MissedTicks, TimerInfo, refuse_field
from ecumene.client.errors import NotSupportedError
from ecumene.client.model import Json
from ecumene.client.values import INT_MAX, INT_MIN, check_path, decode_json, encode_json

_MODES: dict[ClockMode, int] = {"manual": 1, "realtime": 2, "event_driven": 3}
_MODES_BY_NUMBER: dict[int, ClockMode] = {number: mode for mode, number in _MODES.items()}
_MISSED: dict[MissedTicks, int] = {"coalesce": 1, "skip": 2, "catch_up": 3}
_MISSED_BY_NUMBER: dict[int, MissedTicks] = {number: policy for policy, number in _MISSED.items()}


class ClockChange(TypedDict, total=False):
    """What a clock is to do; exactly one of these."""

    advance_by_ns: int
    """Manual clocks: on by so much, firing what is due, each timer at its own time."""
    advance_to_ns: int
    """The same, up to a time."""
    step: bool
    """Up to the next timer that is due, and fire all that are due then. Any mode."""
    skip_to_ns: int
    """To a time at once: what was due before is dealt with by each timer's `missed`. Any mode."""
    pause: bool
    resume: bool
    rate: float
    """Realtime clocks: finite, above 0."""


def control_clock(change: ClockChange) -> timeline_pb2.ControlClock:
    """Advance, step, skip, pause, resume, or set the rate.

    Raises:
        InvalidFieldError: it is not one thing, or no number where one belongs.
    """
    unknown = set(change) - ClockChange.__annotations__.keys()
    if unknown:
        raise TypeError(f"a clock cannot do this: {', '.join(sorted(unknown))}")
    if len(change) != 1:
        raise refuse_field(f"a clock does one thing at a time, not {len(change)}: {', '.join(change) or 'nothing'}")
    ((name, value),) = change.items()
    if name.endswith("_ns"):
        return timeline_pb2.ControlClock(**{name: _check_ns(name, value)})  # type: ignore[arg-type]
    if name == "rate":
        return timeline_pb2.ControlClock(rate=_check_rate(value))
    if value is not True:
        raise refuse_field(f"{name}: give True")
    return timeline_pb2.ControlClock(**{name: True})


def set_timer(
    *,
    at_ns: int | None,
    after_ns: int | None,
    every_ns: int,
    missed: MissedTicks,
    payload: Json,
    if_absent: bool,
) -> timeline_pb2.Timeline:
    """Set a timer. Without `at_ns` and `after_ns` a repeating one is due after its first `every_ns`.

    Raises:
        InvalidFieldError: it says when twice or never, or is no whole number of nanoseconds.
        InvalidValueError: the payload is no JSON document.
    """
    if at_ns is not None and after_ns is not None:
        raise refuse_field("a timer is due at_ns or after_ns, not both")
    if at_ns is None and after_ns is None:
        if not every_ns:
            raise refuse_field("when is the timer due? give at_ns, after_ns or every_ns")
        after_ns = every_ns
    if missed not in _MISSED:
        raise refuse_field(f"missed: {missed!r} is none of {', '.join(_MISSED)}")
    timer = timeline_pb2.SetTimer(
        every_ns=_check_ns("every_ns", every_ns),
        payload_json=b"" if payload is None else encode_json(payload),
        if_absent=if_absent,
    )
    timer.missed = _MISSED[missed]  # type: ignore[assignment]
    if at_ns is not None:
        timer.at_ns = _check_ns("at_ns", at_ns)
    else:
        timer.after_ns = _check_ns("after_ns", after_ns)
    return timeline_pb2.Timeline(set_timer=timer)


def cancel_timer(if_present: bool) -> timeline_pb2.Timeline:
    """Cancel a timer."""
    return timeline_pb2.Timeline(cancel_timer=timeline_pb2.CancelTimer(if_present=if_present))


def fill_clock(clock: Clock) -> timeline_pb2.Clock:
    """A declaration of a clock.

    Raises:
        InvalidFieldError: a mode that is none, a time that is no whole number of nanoseconds, or a rate that is none.
    """
    if clock.mode not in _MODES:
        raise refuse_field(f"mode: {clock.mode!r} is none of {', '.join(_MODES)}")
    message = timeline_pb2.Clock(start_ns=_check_ns("start_ns", clock.start_ns), paused=clock.paused)
    message.mode = _MODES[clock.mode]  # type: ignore[assignment]
    rate = _check_rate(clock.rate)
    if clock.mode == "realtime":
        message.rate = rate
    elif rate != 1:
        raise refuse_field(f"rate: belongs to a realtime clock, this one is {clock.mode}")
    if clock.participants_path:
        message.participants_path = check_path(clock.participants_path)
    if clock.lookahead_ns is not None:
        message.lookahead_ns = _check_ns("lookahead_ns", clock.lookahead_ns)
    return message


def read_clock(message: timeline_pb2.Clock) -> Clock:
    """A clock as declared."""
    lookahead_ns = message.lookahead_ns if message.HasField("lookahead_ns") else None
    return Clock(
        _read_mode(message.mode),
        message.start_ns,
        message.paused,
        lookahead_ns,
        message.rate or 1.0,
        message.participants_path,
    )


def read_clock_state(message: timeline_pb2.ClockState) -> ClockState:
    """A clock as it stands."""
    return ClockState(
        path=message.path,
        mode=_read_mode(message.mode),
        now_ns=message.now_ns,
        rate=message.rate,
        paused=message.paused,
        target_ns=message.target_ns if message.HasField("target_ns") else None,
        lookahead_ns=message.lookahead_ns if message.HasField("lookahead_ns") else None,
        timers=message.timers,
        next_due_ns=message.next_due_ns if message.HasField("next_due_ns") else None,
        held_by=tuple(message.held_by),
        participants_path=message.participants_path,
        stepping=message.stepping,
    )


def read_timer(message: timeline_pb2.TimerState) -> TimerInfo:
    """A timer as it stands."""
    return TimerInfo(
        name=message.name,
        due_ns=message.due_ns,
        every_ns=message.every_ns,
        missed=_MISSED_BY_NUMBER.get(message.missed, "coalesce"),
        payload=decode_json(message.payload_json),
        fired=message.fired,
    )


def _read_mode(number: int) -> ClockMode:
    if number not in _MODES_BY_NUMBER:
        raise NotSupportedError("the clock is of a mode that is newer than this client")
    return _MODES_BY_NUMBER[number]


def _check_ns(name: str, given: object) -> int:
    if not isinstance(given, int) or isinstance(given, bool):
        raise refuse_field(f"{name}: whole nanoseconds, such as ecumene.ns(hours=1); not {given!r}")
    if not INT_MIN <= given <= INT_MAX:
        raise refuse_field(f"{name}: it does not fit 64 bits")
    return given


def _check_rate(given: object) -> float:
    """0 would be taken by the contract for a rate that is not said."""
    if not isinstance(given, int | float) or isinstance(given, bool):
        raise refuse_field(f"rate: give a number, not {type(given).__name__}")
    try:
        rate = float(given)
    except OverflowError:
        rate = math.inf
    if not (math.isfinite(rate) and rate > 0):
        raise refuse_field(f"rate: a finite number above 0, not {rate:g}")
    return rate
