"""How turns end, in the few ways that are the runtime's own, and what the world is told of a failed one."""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ecumene.client.records import TurnStatus

from agent_runtime.llm import ModelError
from agent_runtime.model.errors import ActionRefusedError, BudgetExceededError
from agent_runtime.model.incidents import Incidents

REASON_CHARS_MAX = 200


@dataclass(frozen=True, slots=True)
class TurnEnd:
    """How one turn ended."""

    status: TurnStatus
    reason: str | None = None


OK = TurnEnd(TurnStatus.OK)
MAILBOX_FULL = TurnEnd(TurnStatus.CANCELLED, "mailbox full")
STOPPED = TurnEnd(TurnStatus.CANCELLED, "the runtime was stopped")
UNANSWERED = TurnEnd(TurnStatus.CANCELLED, "stopped before the world answered")
MUTED = TurnEnd(TurnStatus.CANCELLED, "muted")
NOTHING_ASKED = TurnEnd(TurnStatus.ERROR, "the event asks for no report")
NOTHING_REPORTED = TurnEnd(TurnStatus.OK, "no report")


def describe_failure(error: BaseException) -> str:
    """A failure in one line of bounded length, for a record."""
    try:
        text = str(error)[: 4 * REASON_CHARS_MAX]
    except Exception:  # noqa: BLE001 - the turn edge: an error of agents' code may not even tell itself
        text = "it cannot be told"
    line = f"{type(error).__name__}: {' '.join(text.split())}"[:REASON_CHARS_MAX]
    # A model may write halves of signs, which no record could keep.
    return line if line.isascii() else line.encode("utf-8", "replace").decode()


def describe_place(error: BaseException, module: str) -> str:
    """Where in a module an error was raised, or passed last: ` (FILE, line N, in FUNCTION)`; "" if it was not there."""
    passed = [one for one in traceback.walk_tb(error.__traceback__) if one[0].f_globals.get("__name__") == module]
    if not passed:
        return ""
    frame, line = passed[-1]
    return f" ({Path(frame.f_code.co_filename).name}, line {line}, in {frame.f_code.co_name})"


def name_exit(error: BaseException) -> Exception:
    """What stands for an exception of agents' code that would end more than a turn, had it its way."""
    if isinstance(error, Exception):
        return error
    problem = RuntimeError(f"its code raised {describe_failure(error)}")
    problem.__cause__ = error
    return problem


def end_by_incident(incidents: Incidents, where: str, defect: BaseException) -> TurnEnd:
    """The end of turns in which not the agent failed, but what lies around it."""
    return TurnEnd(TurnStatus.ERROR, f"incident {incidents.note(where, defect)}: {describe_failure(defect)}")


def make_no_answer(end: TurnEnd) -> dict[str, Any]:
    """What is reported for a turn without an answer: it counts for the gate and for no mean."""
    return {"status": end.status.value}


def find_status(failure: Exception) -> TurnStatus:
    """The status of a turn that a failure ended."""
    if isinstance(failure, ModelError):
        return TurnStatus(failure.status)
    if isinstance(failure, BudgetExceededError):
        return TurnStatus.BUDGET
    if isinstance(failure, ActionRefusedError):
        return TurnStatus.ERROR
    return TurnStatus.TIMEOUT if isinstance(failure, TimeoutError) else TurnStatus.ERROR
