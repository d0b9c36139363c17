"""What a frame's answer means for each of its ops."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from ecumene.client import (
    AlreadyExistsError,
    CounterOverflowError,
    EcumeneError,
    EntryNotFoundError,
    EnvironmentNotFoundError,
    FrameResult,
    GateClosedError,
    HistoryMismatchError,
    InvalidArgumentError,
    LeaseExpiredError,
    MalformedMessageError,
    NotFoundError,
    PreconditionFailedError,
    RequestIdReusedError,
    SequencePassedError,
    SessionExpiredError,
    Value,
    World,
    Written,
    WrongStateError,
)
from ecumene.client.records import TurnStatus, read_report

from agent_runtime.model.actions import Outcome

logger = logging.getLogger("ecumene.runtime")

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
    if result.is_uniform:
        begin = result.revision_of(0)
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


def judge_failure(error: EcumeneError, *, is_taken_over: bool = False) -> tuple[TurnStatus, str]:
    """Status and reason of a turn whose op the world refused.

    `is_taken_over`: earlier owners took turns of the agent; of one that was passed and left no effect the gate had
    closed then, as nothing else keeps one out for good that the agent's later turns got past.
    """
    if isinstance(error, GateClosedError):
        return TurnStatus.TIMEOUT, LATE
    if isinstance(error, SequencePassedError) and is_taken_over:
        return TurnStatus.TIMEOUT, LATE
    if isinstance(error, SequencePassedError):
        return TurnStatus.CANCELLED, PASSED
    return TurnStatus.ERROR, f"{error.reason or type(error).__name__}: {error}"[:200]


def is_answerable(error: EcumeneError) -> bool:
    """Whether the world said no to what was asked, for good and without any effect, so that the agent can be told."""
    if isinstance(error, WrongStateError):
        return not isinstance(error, GateClosedError | SessionExpiredError | LeaseExpiredError | HistoryMismatchError)
    if isinstance(error, InvalidArgumentError):
        return not isinstance(error, MalformedMessageError | RequestIdReusedError)
    return isinstance(
        error,
        NotFoundError | AlreadyExistsError | PreconditionFailedError | CounterOverflowError,
    )


async def read_adopted(world: World, path: str, key: str) -> tuple[TurnStatus, Value]:
    """Status and value that an earlier turn of the same event left: its report, or its failure's.

    Where the world cannot be asked, it counts as done, with a value that is not known: what was done stands.
    """
    try:
        value = (await world.environment(path).get(key)).value
    except EcumeneError as error:
        if not isinstance(error, EntryNotFoundError | EnvironmentNotFoundError):
            logger.warning("what %s reported before to %s is not known: %s", key, path, error)
        return TurnStatus.OK, None
    return read_report(value)[0], value


def _is_plain(answer: object) -> bool:
    return isinstance(answer, Written) and answer.revision > 0 and answer.changed and not answer.duplicate
