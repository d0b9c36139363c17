"""What is kept for one client: answers of its frames without their reads, within bounds."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from env_server.model.errors import OutcomeNotKept, WorldError
from env_server.model.frames import Answer, Invoked, Listed, Transacted, Written
from env_server.model.ports import SessionMark

_KEPT: Final = (WorldError, Written, Invoked, Transacted)
_WRITTEN_BYTES: Final = 16
_ERROR_BYTES: Final = 48


class Session:
    """What is kept for one client."""

    __slots__ = (
        "acknowledged",
        "answers",
        "client_id",
        "floor",
        "is_doubtful",
        "last_seq",
        "streams",
        "used",
        "weight_bytes",
        "weights",
    )

    def __init__(self, client_id: str, floor: int = 0) -> None:
        self.client_id = client_id
        self.floor = floor
        """It may lack answers that were kept up to this record, by a session of the same client that was forgotten."""
        self.last_seq = 0
        self.acknowledged = 0
        self.answers: dict[int, Answer] = {}
        self.used = 0
        self.streams = 0
        """That are open now."""
        self.is_doubtful = False
        """Nobody knows whether it was forgotten: only its frame 1 may begin it."""
        self.weights: dict[int, int] = {}
        """Bytes of the outcomes that an answer lists, where it lists any; the oldest first."""
        self.weight_bytes = 0

    def weigh(self, seq: int, size_bytes: int) -> None:
        """Adds to the bytes of an answer."""
        if size_bytes:
            self.weights[seq] = self.weights.get(seq, 0) + size_bytes
            self.weight_bytes += size_bytes

    def drop(self, seq: int) -> None:
        """Drops an answer."""
        self.answers.pop(seq, None)
        self.weight_bytes -= self.weights.pop(seq, 0)

    def lighten(self, bytes_max: int) -> None:
        """Drops what the oldest answers list until the rest is within bounds; that the frames were done stays known."""
        while self.weight_bytes > bytes_max:
            seq = next(iter(self.weights))
            self.weight_bytes -= self.weights.pop(seq)
            answer = self.answers[seq]
            dropped = [*answer.dropped, *(listed.index for listed in answer.outcomes)]
            if answer.pending:
                answer.outcomes, answer.dropped = [], dropped  # in its place: it still grows
            else:
                self.answers[seq] = replace(answer, outcomes=[], dropped=dropped)

    def mark(self) -> SessionMark:
        """The session as it is now; an answer with pending ops still grows, and is encoded later, on another thread."""
        answers = tuple(
            replace(one, outcomes=list(one.outcomes), without_revision=list(one.without_revision))
            if one.pending
            else one
            for one in self.answers.values()
        )
        return SessionMark(self.client_id, self.last_seq, answers, self.acknowledged, self.used, self.floor)


def weigh(outcomes: Sequence[Listed]) -> int:
    """Bytes of listed outcomes, roughly as encoded; most answers list none."""
    size_bytes = _WRITTEN_BYTES * len(outcomes)
    for listed in outcomes:
        outcome = listed.outcome
        if type(outcome) is Written:  # most, by far
            continue
        if isinstance(outcome, WorldError):
            texts = (
                *outcome.metadata,
                *outcome.metadata.values(),
                *(text for pair in outcome.violations for text in pair),
            )
            size_bytes += _ERROR_BYTES + len(outcome.message) + sum(map(len, texts))
        elif isinstance(outcome, Invoked):
            size_bytes += len(outcome.result.text)
        elif isinstance(outcome, Transacted):
            size_bytes += _WRITTEN_BYTES * len(outcome.written)
    return size_bytes


def strip_reads(answer: Answer) -> Answer:
    """The answer without what its reads saw: a repetition runs them again. What was dropped stays dropped."""
    kept = [listed for listed in answer.outcomes if isinstance(listed.outcome, _KEPT)]
    if answer.dropped:
        kept = [listed for listed in kept if not isinstance(listed.outcome, OutcomeNotKept)]
    return answer if len(kept) == len(answer.outcomes) else replace(answer, outcomes=kept)
