"""The answer of a frame as a view: nothing is built before it is touched, an all-done frame costs nothing."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping

from env_api.v1 import operations_pb2, session_pb2

from ecumene.client import error_table
from ecumene.client.errors import EcumeneError
from ecumene.client.model import Outcome, Written
from ecumene.client.readings import read_outcome


class FrameResult:
    """What the ops of one frame came to. Op i is the i-th op that was put into the frame."""

    __slots__ = ("_first_group", "_late", "_listed", "_parts", "_versions", "count", "seq")

    def __init__(
        self,
        parts: list[session_pb2.FrameAnswer],
        first_group: int = 1,
        late: Mapping[int, Outcome | EcumeneError] | None = None,
    ) -> None:
        self._parts = parts
        self._late = late or {}
        """What came of ops that were refused for now, and sent again in other frames."""
        self._first_group = first_group
        """Parts that belong to the first answer; later ones complete ops that had to wait."""
        self._listed: dict[int, operations_pb2.OpOutcome] | None = None
        self._versions: list[int] | None = None
        self.seq = parts[0].seq
        self.count = parts[0].count

    @property
    def revision(self) -> int:
        """The world's revision when the (last part of the) answer was made; not below that of any write of it."""
        told: int = self._parts[-1].revision
        return max((told, *(getattr(outcome, "revision", 0) for outcome in self._late.values())))

    @property
    def is_uniform(self) -> bool:
        """Whether every op was done at once, each in the revision after that of the op before it."""
        first = self._parts[0]
        is_short = len(self._parts) == 1 and not self._late
        return is_short and not (first.outcomes or first.without_revision or first.pending)

    @property
    def refusal(self) -> EcumeneError | None:
        """Why the frame was refused as a whole, so that each op failed of it; None = it was not."""
        refused = self._get_refusal()
        return None if refused is None or self._late else error_table.from_message(refused.error)

    @property
    def ok_count(self) -> int:
        """Ops that succeeded."""
        done_late = sum(not isinstance(outcome, EcumeneError) for outcome in self._late.values())
        if self._get_refusal() is not None:
            return done_late
        failed = sum(outcome.HasField("error") for part in self._parts for outcome in part.outcomes)
        return self.count - failed + done_late

    @property
    def failures(self) -> list[tuple[int, EcumeneError]]:
        """Index and exception of each op that failed, in order; the exceptions are made now."""
        refused = self._get_refusal()
        if refused is not None:
            refusal = error_table.from_message(refused.error)
            failed = [(index, refusal) for index in range(self.count) if index not in self._late]
        else:
            failed = [
                (outcome.index, error_table.from_message(outcome.error))
                for part in self._parts
                for outcome in part.outcomes
                if outcome.HasField("error") and outcome.index not in self._late
            ]
        failed += [(index, error) for index, error in self._late.items() if isinstance(error, EcumeneError)]
        failed.sort(key=lambda failure: failure[0])
        return failed

    def raise_failure(self) -> FrameResult:
        """Raise the first failure, if there is one; otherwise return this result."""
        for _, error in self.failures:
            raise error
        return self

    @property
    def versions(self) -> list[int]:
        """Version after each op's write, 0 where there is none; empty unless the frame asked for versions."""
        if self._versions is None:
            columns = [part.versions[:] for part in self._parts if part.versions]
            self._versions = columns.pop() if columns else []
            for column in columns:
                self._versions = [late or early for late, early in zip(self._versions, column, strict=False)]
            for index, outcome in self._late.items():
                if isinstance(outcome, Written) and index < len(self._versions):
                    self._versions[index] = outcome.version
        return self._versions

    def revision_of(self, index: int) -> int:
        """Revision that the op's write took, or the one it first took if it is a duplicate; 0 = none known."""
        if index in self._late:
            revision_late: int = getattr(self._late[index], "revision", 0)
            return revision_late
        outcome = self._outcomes().get(index) or self._get_refusal()
        if outcome is not None:
            kind = outcome.WhichOneof("outcome")
            if kind in ("written", "invoke", "transact"):
                revision: int = getattr(outcome, kind).revision
                return revision
            if kind == "error":
                return 0
        first = self._parts[: self._first_group]
        rank = index
        for part in first:
            for column in (part.without_revision, part.pending):
                place = bisect_left(column, index)
                if place < len(column) and column[place] == index:
                    return 0
                rank -= place
        return self._parts[0].base_revision + 1 + rank

    def outcome_of(self, index: int) -> Outcome:
        """What the op answered.

        Raises:
            EcumeneError: the op failed; the class says why.
        """
        found = self.peek(index)
        if isinstance(found, EcumeneError):
            raise found
        return found

    def peek(self, index: int) -> Outcome | EcumeneError:
        """What the op answered; an error is returned, not raised."""
        if index in self._late:
            return self._late[index]
        listed = self._outcomes().get(index) or self._get_refusal()
        if listed is not None:
            return read_outcome(listed)
        versions = self.versions
        return Written(self.revision_of(index), versions[index] if index < len(versions) else 0)

    def complete(self, late: Mapping[int, Outcome | EcumeneError]) -> FrameResult:
        """This result with what came later of some of its ops."""
        return FrameResult(self._parts, self._first_group, late)

    def lists_any(self, reasons: frozenset[int]) -> bool:
        """Whether an op, or the frame, failed for one of these reasons; makes no exceptions."""
        return any(outcome.error.reason in reasons for part in self._parts for outcome in part.outcomes)

    def _get_refusal(self) -> operations_pb2.OpOutcome | None:
        # The contract's form for it: a single outcome, at the place after the last op.
        outcomes = self._parts[0].outcomes
        return outcomes[0] if len(outcomes) == 1 and outcomes[0].index == self.count else None

    def _outcomes(self) -> dict[int, operations_pb2.OpOutcome]:
        if self._listed is None:
            self._listed = {outcome.index: outcome for part in self._parts for outcome in part.outcomes}
        return self._listed
