"""How turns end, in the few ways that are the runtime's own, and what the world is told of a failed one."""

from __future__ import annotations

from typing import Any

from ecumene.client.records import TurnStatus

from agent_runtime.turns.ledger import TurnEnd

REASON_CHARS_MAX = 200

OK = TurnEnd(TurnStatus.OK)
MAILBOX_FULL = TurnEnd(TurnStatus.CANCELLED, "mailbox full")
STOPPED = TurnEnd(TurnStatus.CANCELLED, "the runtime was stopped")
UNANSWERED = TurnEnd(TurnStatus.CANCELLED, "stopped before the world answered")
MUTED = TurnEnd(TurnStatus.CANCELLED, "muted")
NOTHING_ASKED = TurnEnd(TurnStatus.ERROR, "the event asks for no report")
NOTHING_REPORTED = TurnEnd(TurnStatus.OK, "no report")


def describe_failure(error: BaseException) -> str:
    """A failure in one line of bounded length, for a record."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:REASON_CHARS_MAX]


def make_no_answer(end: TurnEnd) -> dict[str, Any]:
    """What is reported for a turn without an answer: it counts for the gate and for no mean."""
    return {"status": end.status.value}
