"""Where finished calls are told: counted, and recorded as turns of their actors."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

from ecumene.client.records import TurnStatus
from ecumene.workflows.calls import MAKE
from ecumene.workflows.cells import FinishedCall
from ecumene.workflows.errors import CallRefusedError, CallTimeoutError, Failure, FlowLostError

from agent_runtime.model.clock import Clock
from agent_runtime.recording import Recorder, RecordingError, RecordingFullError

ROWS_HELD_MAX = 512
HELD_S = 0.5
"""Rows are handed on together, after this time at the latest."""
REASON_CHARS_MAX = 500
_STATUSES = {
    CallTimeoutError.code: TurnStatus.TIMEOUT,
    CallRefusedError.code: TurnStatus.REFUSED,
    FlowLostError.code: TurnStatus.CANCELLED,
}
"""Status of a turn by the code of its failure; any other is an error."""


class CallObserver(Protocol):
    """Is told of each call once, when its outcome is durable. It must be quick and must not raise."""

    def record(self, call: FinishedCall) -> None:
        """A call has ended."""


class CallCounts:
    """Counts calls, for the last line of a host."""

    def __init__(self) -> None:
        self.ok = 0
        self.failed = 0
        self.attempts = 0
        self.effects = 0

    def record(self, call: FinishedCall) -> None:
        """A call has ended."""
        if call.failure is None:
            self.ok += 1
        else:
            self.failed += 1
        self.attempts += call.attempts
        self.effects += call.effects


class CallObservers:
    """Several observers as one."""

    def __init__(self, *observers: CallObserver) -> None:
        self._observers = [*observers]

    def add(self, observer: CallObserver) -> None:
        """One more."""
        self._observers.append(observer)

    def record(self, call: FinishedCall) -> None:
        """A call has ended."""
        for observer in self._observers:
            observer.record(call)


class CallRecords:
    """Records calls in the table of turns: run = flow, agent = actor, group = class.

    What ran no method is no turn: a stop, a call on an actor that is not here. Close it.
    """

    def __init__(self, recorder: Recorder, clock: Clock, on_failure: Callable[[RecordingError], None]) -> None:
        """`on_failure`: nothing is recorded any more; called in the loop, once a try."""
        self._recorder = recorder
        self._clock = clock
        self._on_failure = on_failure
        self._rows: list[dict[str, Any]] = []
        self._timer: asyncio.TimerHandle | None = None

    def record(self, call: FinishedCall) -> None:
        """A call has ended."""
        if not call.turn:
            return
        self._rows.append(self._describe(call))
        if len(self._rows) % ROWS_HELD_MAX == 0:
            self._hand_on()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(HELD_S, self._hand_on)

    async def close(self) -> None:
        """Write what is held. Raises RecordingError if anything that was recorded is not on disk."""
        self._hand_on()
        await asyncio.to_thread(self._recorder.close)

    def _hand_on(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._rows:
            return
        columns = {name: [row[name] for row in self._rows] for name in self._rows[0]}
        try:
            self._recorder.turns.extend(columns)
        except RecordingFullError as error:
            if len(self._rows) > ROWS_HELD_MAX * 100:
                self._on_failure(error)
            self._timer = asyncio.get_running_loop().call_later(HELD_S, self._hand_on)
            return
        except RecordingError as error:
            self._on_failure(error)
        self._rows = []

    def _describe(self, call: FinishedCall) -> dict[str, Any]:
        return {
            "run": call.flow,
            "agent": call.actor,
            "group": _clean(call.class_name),
            "turn": call.turn,
            "observation_revision": call.revision,
            "wall_time_ns": self._clock.wall_ns(call.started_s),
            "status": find_status(call.failure).value,
            "reason": None if call.failure is None else _clean(call.failure.describe()),
            "attempts": 0,
            "prompt_tokens": 0,
            "completion_tokens": 0,
            "latency_ms": (call.ended_s - call.arrived_s) * 1000,
            "flags": "rerun" if call.attempts > 1 else None,
            "observed_at_ns": call.observed_at_ns or None,
            "method": "__init__" if call.do == MAKE else _clean(call.method),
        }


def find_status(failure: Failure | None) -> TurnStatus:
    """The status of the turn that a call was."""
    return TurnStatus.OK if failure is None else _STATUSES.get(failure.code, TurnStatus.ERROR)


def _clean(text: str) -> str:
    """A text that a file takes, whatever it was made of."""
    return text[:REASON_CHARS_MAX].encode("utf-8", "replace").decode()
