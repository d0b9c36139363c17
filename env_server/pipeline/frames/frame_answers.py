"""A frame's answer as its ops end: what each of them did, what is kept for repetitions, whose rows are whose."""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import replace

from env_server.idempotency.producers import Producers
from env_server.model.changes import KeptOutcome
from env_server.model.errors import (
    DeadlineExceeded,
    DeniedView,
    Exhausted,
    FenceFallen,
    InternalError,
    OutcomeNotKept,
    Reason,
    Unavailable,
    WorldError,
)
from env_server.model.frames import Answer, Frame, Invoked, Listed, Outcome, Read, Transacted, Written
from env_server.model.operations import Code
from env_server.pipeline.frames.origins import attribute_pass, identity_of
from env_server.state_tree.tree import Tree

_TRANSIENT = (Exhausted, Unavailable, DeadlineExceeded, InternalError, DeniedView, FenceFallen)

_FOR_NOW = frozenset({Reason.QUEUE_FULL, Reason.RATE_LIMITED, Reason.DRAINING, Reason.RECOVERING})


def tell_refused(frame: Frame, error: WorldError) -> None:
    """Tells whoever wants to know of it that an op of the frame was refused for now: its client will send it again."""
    if frame.refused_for_now is not None and error.reason in _FOR_NOW:
        tell, frame.refused_for_now = frame.refused_for_now, None
        tell()


class FrameAnswer:
    """The part of a frame's answer that its ops report to, each once, when it has ended."""

    __slots__ = ("_effects", "_first_revision", "_late", "_producers", "_row", "_tickets", "_tree", "answer", "frame")

    def __init__(
        self,
        frame: Frame,
        tree: Tree,
        producers: Producers,
        kept: Answer | None = None,
        again: set[int] | None = None,
    ) -> None:
        """`kept` is what an earlier try of the frame has done; only `again`, the rest, is to be executed."""
        self.frame = frame
        self.answer = (
            Answer(frame.seq, len(frame.keys), tree.revision) if kept is None else _without(kept, again or set())
        )
        #: Ops that took a revision now, when the answer's ranks are those of an earlier try; else None.
        self._effects: list[int] | None = None if kept is None else []
        self._first_revision = tree.revision + 1
        self._row = len(tree.changes)
        #: Ops that wait or await, and what takes one out that has not begun.
        self._tickets: dict[int, Callable[[], bool]] = {}
        #: The op that ends after the first part was sent, while it does.
        self._late: int | None = None
        self._tree = tree
        self._producers = producers

    def wrote(self, index: int, written: Written) -> None:
        """A write succeeded. Advances the tree when it changed something."""
        if written.changed:
            self._tree.advance()
        self._took(index, written.changed)
        self._keep(index, written)
        plain = written.changed and self._rows_tell(written)
        if not plain or self._late is not None or self._effects is not None:
            self.answer.outcomes.append(Listed(index, written))

    def transacted(self, index: int, outcome: Transacted | Invoked) -> None:
        """A transaction or operation succeeded. Advances the tree when it changed something."""
        changed = outcome.changed if isinstance(outcome, Invoked) else any(one.changed for one in outcome.written)
        revision = self._tree.advance() if changed else self._tree.revision
        self._took(index, changed)
        outcome = outcome._replace(revision=revision)
        self._keep(index, outcome)
        self.answer.outcomes.append(Listed(index, outcome))

    def read(self, index: int, seen: Read) -> None:
        """A query was answered."""
        self.answer.without_revision.append(index)
        self.answer.outcomes.append(Listed(index, seen))

    def failed(self, index: int, error: WorldError) -> None:
        """An op had no effect."""
        _let_go(error)
        self.answer.without_revision.append(index)
        self.answer.outcomes.append(Listed(index, error))
        tell_refused(self.frame, error)
        transient = isinstance(error, _TRANSIENT) or error.retry_delay_ms
        if self.frame.codes[index] != Code.QUERY and not transient:
            self._keep(index, error)

    def refused(self, index: int, error: WorldError) -> None:
        """An op whose identity is at fault had no effect; nothing is kept under such an identity."""
        _let_go(error)
        self.answer.without_revision.append(index)
        self.answer.outcomes.append(Listed(index, error))

    def repeated(self, index: int, outcome: Outcome) -> None:
        """An op had its effect before; this is its first outcome."""
        self.answer.without_revision.append(index)
        self.answer.outcomes.append(Listed(index, outcome, duplicate=True))

    def _keep(self, index: int, outcome: Outcome) -> None:
        """Keeps the outcome of an op with an identity of its own."""
        producer, seq = identity_of(self.frame, index)
        if not producer:
            return
        self._producers.keep(producer, seq, outcome)
        if not (isinstance(outcome, Written) and self._rows_tell(outcome)):
            self._tree.changes.outcomes.append(KeptOutcome(producer, seq, outcome))

    def _rows_tell(self, written: Written) -> bool:
        """Whether the op's first row, read again from the log, gives the same outcome."""
        if not written.changed or written.value is not None or written.sequence:
            return False
        changes = self._tree.changes
        return changes.told_version(bisect_left(changes.revisions, written.revision)) == written.version

    def _took(self, index: int, changed: bool) -> None:
        """Notes whether an op took a revision, so that ranks in the answer stay true."""
        if self._effects is not None and changed:
            self._effects.append(index)
        if not changed or self._effects is not None:
            self.answer.without_revision.append(index)

    def _attribute(self) -> None:
        """Says who caused the rows that the pass has written: no work per op when each op wrote one row."""
        frame, changes = self.frame, self._tree.changes
        rows = len(changes) - self._row
        varies = frame.producers or frame.producer_seqs or frame.actors or frame.causes
        one_each = rows == len(frame.keys) and not self.answer.without_revision and not self._tickets
        whole = one_each and self._effects is None
        owners = self._owners(rows) if varies and not whole else None
        attribute_pass(changes, frame, self._row, owners)

    def _owners(self, rows: int) -> list[int]:
        """The op of each of the last `rows` rows: revision base + 1 + r belongs to the r-th op that took one."""
        effects = self._effects
        if effects is None:
            idle = set(self.answer.without_revision).union(self._tickets)
            effects = [index for index in range(len(self.frame.keys)) if index not in idle]
        first = self._first_revision
        revisions = self._tree.changes.revisions
        return [effects[revisions[row] - first] for row in range(len(revisions) - rows, len(revisions))]

    def _versions(self) -> list[int]:
        """The version after each op's write, which its first row tells; 0 for ops without one."""
        changes = self._tree.changes
        versions = list(self.answer.versions or ()) or [0] * len(self.frame.keys)  # a repetition adds to the first try
        rows = len(changes) - self._row
        for row, op in reversed(list(enumerate(self._owners(rows), self._row))):
            versions[op] = changes.told_version(row)
        for listed in self.answer.outcomes:
            if isinstance(listed.outcome, Written):
                versions[listed.index] = listed.outcome.version
        return versions


def _without(kept: Answer, again: set[int]) -> Answer:
    """A kept answer to go on with: nothing of it is pending now, and nothing is said of the ops to be run again."""
    outcomes = [listed for listed in kept.outcomes if listed.index not in again]
    if kept.dropped:
        told = OutcomeNotKept()
        outcomes += [Listed(index, told, duplicate=True) for index in kept.dropped]
    return replace(
        kept,
        part=0,
        pending=[],
        outcomes=outcomes,
        without_revision=[index for index in kept.without_revision if index not in again],
    )


def _let_go(error: WorldError) -> None:
    """Of how it came about: the error may be kept for long, and its traceback holds the whole frame."""
    error.__traceback__ = error.__context__ = None
