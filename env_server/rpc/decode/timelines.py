"""Clocks and timers from the wire."""

from env_api.v1 import timeline_pb2

from env_server.model.clock_reports import ClockReport
from env_server.model.errors import DeniedView, InvalidRequest, Reason
from env_server.model.limits import Limits
from env_server.model.names import check_count, check_segment, split_path
from env_server.model.operations import ClockAction, Code, ControlClock, Delete, SetTimer
from env_server.model.timelines import ClockDeclaration, ClockMode, MissedTicks
from env_server.rpc.decode.fences import decode_fence
from env_server.rpc.decode.values import decode_json

_FLAGS = ("step", "pause", "resume")


def decode_clock(message: timeline_pb2.Clock, limits: Limits, field: str) -> ClockDeclaration:
    """What an environment declares of its clock.

    Raises:
        InvalidRequest: INVALID_FIELD, INVALID_PATH.
    """
    try:
        mode = ClockMode(message.mode)
    except ValueError:
        raise InvalidRequest(Reason.INVALID_FIELD, f"{field}.mode", "unknown mode of a clock") from None
    if message.rate and mode is not ClockMode.REALTIME:
        raise InvalidRequest(Reason.INVALID_FIELD, f"{field}.rate", "belongs to a realtime clock")
    lookahead_ns = message.lookahead_ns if message.HasField("lookahead_ns") else None
    if message.participants_path:
        split_path(message.participants_path, limits)
    return ClockDeclaration(
        mode, message.start_ns, message.rate or 1.0, message.paused, lookahead_ns, message.participants_path
    )


def decode_report(message: timeline_pb2.ClockReport, groups: tuple[str, ...]) -> ClockReport:
    """What a session with these groups says of a participant.

    Raises:
        InvalidRequest: INVALID_FIELD.
        DeniedView: it names no group although the session has some.
    """
    if message.group > len(groups):
        problem = f"{message.group} is the number of no group of hello.groups, which has {len(groups)}"
        raise InvalidRequest(Reason.INVALID_FIELD, "clock_report.group", problem)
    if groups and not message.group:
        raise DeniedView("", message.path, "change")
    return ClockReport(
        message.path,
        message.key,
        message.set_revision,
        message.busy,
        message.earliest_wake_ns if message.HasField("earliest_wake_ns") else None,
        message.consumed_revision,
        groups[message.group - 1] if groups else "",
        decode_fence(message.fence) if message.HasField("fence") else None,
        message.refusals if message.HasField("refusals") else None,
    )


def decode_timeline(message: timeline_pb2.Timeline, key: str, limits: Limits) -> tuple[Code, object]:
    """SET_TIMER or CANCEL_TIMER with a key, CONTROL_CLOCK without.

    Raises:
        InvalidRequest, LimitExceeded: naming the field.
    """
    action = message.WhichOneof("action")
    if action is None:
        raise InvalidRequest(Reason.INVALID_FIELD, "timeline.action", "must be set")
    if action == "control":
        if key:
            raise InvalidRequest(Reason.INVALID_FIELD, "key", "must be empty for timeline.control")
        return Code.CONTROL_CLOCK, decode_control(message.control)
    check_segment(key, limits)
    if action == "set_timer":
        return Code.SET_TIMER, decode_set_timer(message.set_timer, limits)
    return Code.CANCEL_TIMER, Delete(if_present=message.cancel_timer.if_present)


def decode_set_timer(message: timeline_pb2.SetTimer, limits: Limits) -> SetTimer:
    """A timer to be set. Raises as `decode_timeline`."""
    due = message.WhichOneof("due")
    if due is None:
        raise InvalidRequest(Reason.INVALID_FIELD, "set_timer.due", "must be set")
    try:
        missed = MissedTicks(message.missed or MissedTicks.COALESCE)
    except ValueError:
        raise InvalidRequest(Reason.INVALID_FIELD, "set_timer.missed", "unknown policy") from None
    check_count(len(message.payload_json), "timer_payload_bytes_max", limits)
    payload = decode_json(message.payload_json, limits, "set_timer.payload_json") if message.payload_json else None
    return SetTimer(
        message.at_ns if due == "at_ns" else None,
        message.after_ns if due == "after_ns" else None,
        message.every_ns,
        missed,
        payload,
        message.if_absent,
    )


def decode_control(message: timeline_pb2.ControlClock) -> ControlClock:
    """What is done to a clock. Raises as `decode_timeline`."""
    action = message.WhichOneof("action")
    if action is None:
        raise InvalidRequest(Reason.INVALID_FIELD, "control.action", "must be set")
    if action in _FLAGS and not getattr(message, action):
        raise InvalidRequest(Reason.INVALID_FIELD, f"control.{action}", "must be true when set")
    if action == "rate":
        return ControlClock(ClockAction.SET_RATE, rate=message.rate)
    if action in _FLAGS:
        return ControlClock(ClockAction[action.upper()])
    return ControlClock(ClockAction[action.removesuffix("_ns").upper()], ns=getattr(message, action))
