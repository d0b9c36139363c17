"""What the report of a turn says: an answer, or only how its turn ended."""

from __future__ import annotations

from ecumene.client.model import Value
from ecumene.client.records.tables import TurnStatus


def read_report(value: Value) -> tuple[TurnStatus, bool]:
    """The status that a report tells, and whether it is an answer at all: one without only says how its turn ended.

    Such a document counts for the gate and for no mean; an agent itself cannot report one.
    """
    status = value.get("status") if isinstance(value, dict) and len(value) == 1 else None
    if isinstance(status, str) and status in set(TurnStatus):
        return TurnStatus(status), False
    return TurnStatus.OK, True
