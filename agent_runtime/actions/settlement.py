"""What a frame's answer means for each of its ops."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from ecumene.client import (
    EcumeneError,
    EntryNotFoundError,
    EnvironmentNotFoundError,
    FrameResult,
    GateClosedError,
    SequencePassedError,
    Value,
    World,
    Written,
)
from ecumene.client.records import TurnStatus

from agent_runtime.model.actions import Outcome

LATE = "late: the gate had closed"
ADOPTED = "adopted: an earlier answer to this event stands"
PASSED = "passed: a later event was answered already"


@dataclass(frozen=True, slots=True)
class Settled:
    """The answer of a frame of writes.

    `revisions[i]` is the revision that op i took; for the ops in `others` it means nothing: they failed,
    met an earlier outcome of their producer, or were not told their revision.
    """

    revisions: npt.NDArray[np.int64]
    others: dict[int, Outcome]

    def outcome(self, index: int) -> Outcome:
        """The outcome of one op."""
        return self.others.get(index) or Outcome(int(self.revisions[index]))


def settle_block(result: FrameResult) -> Settled:
    """Read a frame's answer; costs nothing per op when all were done now."""
    count = result.count
    first, last = result.peek(0), result.peek(count - 1)
    # If both took a revision now and they lie as far apart as the ops do, so did all in between.
    if _is_plain(first) and _is_plain(last) and last.revision - first.revision == count - 1:  # type: ignore[union-attr]
        begin = first.revision  # type: ignore[union-attr]
        return Settled(np.arange(begin, begin + count, dtype=np.int64), {})
    revisions = np.zeros(count, dtype=np.int64)
    others = {}
    for index in range(count):
        answer = result.peek(index)
        if isinstance(answer, Written) and _is_plain(answer):
            revisions[index] = answer.revision
        else:
            others[index] = read_answer(answer)
    return Settled(revisions, others)


def read_answer(answer: object) -> Outcome:
    """The outcome of one op from what the SDK says of it."""
    if isinstance(answer, EcumeneError):
        return Outcome(error=answer)
    revision = getattr(answer, "revision", 0) or None
    return Outcome(revision, bool(getattr(answer, "duplicate", False)))


def judge_failure(error: EcumeneError) -> tuple[TurnStatus, str]:
    """Status and reason of a turn whose op the world refused."""
    if isinstance(error, GateClosedError):
        return TurnStatus.TIMEOUT, LATE
    if isinstance(error, SequencePassedError):
        return TurnStatus.CANCELLED, PASSED
    return TurnStatus.ERROR, f"{error.reason or type(error).__name__}: {error}"[:200]


@dataclass(frozen=True, slots=True)
class Adopted:
    """What an earlier turn of the same event left: its report, or that it has none."""

    status: TurnStatus
    value: Value
    revision: int | None
    is_answer: bool


async def find_adopted(world: World, path: str, key: str, event: tuple[str, int], revision: int | None) -> Adopted:
    """What an agent's earlier turn about an event reported under its own key.

    `event`: world and revision, as its turns' causes name them; `revision`: of the report, if it is known. Without a
    report, the gate had closed: nothing else keeps one out for good that the agent's later turns got past.

    Raises EcumeneError.
    """
    environment = world.environment(path)
    try:
        if revision is not None:
            entry = await environment.get(key)
            if entry.modify_revision == revision:
                return _read_report(entry.value, revision)
        asked, last, cause = (revision or event[1] + 1), revision or 0, f"{event[0]}/{event[1]}."
        while asked:
            page = await environment.read_past(key, from_revision=asked, to_revision=last)
            for past in page.values:
                if past.revision == revision or (past.producer == key and past.cause.startswith(cause)):
                    return _read_report(past.value, past.revision)
            asked = page.next_revision
    except (EntryNotFoundError, EnvironmentNotFoundError):
        pass
    return Adopted(TurnStatus.OK if revision else TurnStatus.TIMEOUT, None, revision, False)


def _read_report(value: Value, revision: int) -> Adopted:
    status = value.get("status") if isinstance(value, dict) and len(value) == 1 else None
    if isinstance(status, str) and status in set(TurnStatus):
        return Adopted(TurnStatus(status), value, revision, False)
    return Adopted(TurnStatus.OK, value, revision, True)


def _is_plain(answer: object) -> bool:
    return isinstance(answer, Written) and answer.revision > 0 and answer.changed and not answer.duplicate
