"""Clocks and timers to messages."""

from env_api.v1 import timeline_pb2

from env_server.model.clock_reports import ReportVoid
from env_server.model.timelines import ClockDeclaration, Timer
from env_server.pipeline.timekeeping.timekeeping import ClockSeen
from env_server.rpc.encode.errors import encode_error


def encode_clock(clock: ClockDeclaration) -> timeline_pb2.Clock:
    """A clock as it was declared."""
    return timeline_pb2.Clock(
        mode=int(clock.mode),  # type: ignore[arg-type]
        start_ns=clock.start_ns,
        rate=0.0 if clock.rate == 1.0 else clock.rate,
        paused=clock.paused,
        lookahead_ns=clock.lookahead_ns,
        participants_path=clock.participants_path,
    )


def encode_clock_state(seen: ClockSeen) -> timeline_pb2.ClockState:
    """Where a clock stands."""
    return timeline_pb2.ClockState(
        path=seen.path,
        mode=int(seen.declaration.mode),  # type: ignore[arg-type]
        now_ns=seen.state.now_ns,
        rate=seen.state.rate,
        paused=seen.state.paused,
        target_ns=seen.state.target_ns,
        lookahead_ns=seen.declaration.lookahead_ns,
        timers=seen.timers,
        next_due_ns=seen.next_due_ns,
        held_by=seen.held_by,
        participants_path=seen.participants_path,
        stepping=seen.state.stepping,
    )


def encode_timer(timer: Timer) -> timeline_pb2.TimerState:
    """A timer that waits."""
    return timeline_pb2.TimerState(
        name=timer.name,
        due_ns=timer.due_ns,
        every_ns=timer.every_ns,
        missed=int(timer.missed),  # type: ignore[arg-type]
        payload_json=b"" if timer.payload is None else timer.payload.text,
        fired=timer.fired,
    )


def encode_report_void(void: ReportVoid) -> timeline_pb2.ClockReportVoid:
    """Reports that count no more."""
    return timeline_pb2.ClockReportVoid(
        path=void.path, key=void.key, set_revision=void.set_revision, error=encode_error(void.error)
    )
