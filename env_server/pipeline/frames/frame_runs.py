"""A frame on its way through execution: its answer as it grows, and the ops of it that wait."""

from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from env_server.idempotency.producers import Producers
from env_server.idempotency.sessions import Sessions, strip_reads
from env_server.model.changes import KeptAnswer, KeptOutcome
from env_server.model.errors import (
    DeadlineExceeded,
    DeniedView,
    Executed,
    Exhausted,
    InternalError,
    Unavailable,
    WorldError,
)
from env_server.model.frames import Answer, Frame, Invoked, Listed, Outcome, Read, Transacted, Written
from env_server.model.operations import Code
from env_server.model.ports import Clock, Handle
from env_server.pipeline.commits.commits import Commits, Deliver
from env_server.pipeline.frames.origins import attribute_op, attribute_pass, identity_of
from env_server.state_tree.tree import Tree

_TRANSIENT = (Exhausted, Unavailable, DeadlineExceeded, InternalError, DeniedView)


class FrameRun:
    """One frame being executed. The first part of its answer is sent by `finish`, later ones as waiting ops end."""

    __slots__ = (
        "_clock",
        "_commits",
        "_deadline",
        "_deliver",
        "_during",
        "_effects",
        "_ended",
        "_first_revision",
        "_kept",
        "_late",
        "_open_group",
        "_owned",
        "_part",
        "_part_kept",
        "_producers",
        "_row",
        "_sessions",
        "_tickets",
        "_tree",
        "answer",
        "frame",
    )

    def __init__(
        self,
        frame: Frame,
        deliver: Deliver,
        tree: Tree,
        commits: Commits,
        producers: Producers,
        sessions: Sessions,
        clock: Clock,
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
        self._deliver = deliver
        self._tree = tree
        self._commits = commits
        self._producers = producers
        self._sessions = sessions
        self._clock = clock
        self._row = len(tree.changes)
        #: Ops that wait or await, and what takes one out that has not begun.
        self._tickets: dict[int, Callable[[], bool]] = {}
        self._deadline: Handle | None = None
        self._ended: Callable[[], object] | None = None
        #: The op that ends after the first part was sent, while it does.
        self._late: int | None = None
        self._during = True
        #: What the session keeps of the whole answer.
        self._kept: Answer | None = None
        #: The last part, what is kept of it, and the group it waits for: while that is open, later ends join the part.
        self._part = self._part_kept = self.answer
        self._open_group = 0
        own = frame.producers
        #: Whether some write of the frame goes by the frame's own identity, so that its answer is kept.
        self._owned = bool(frame.client_id and frame.seq) and (own is None or "" in own)

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

    def waits(self, index: int, try_withdraw: Callable[[], bool]) -> None:
        """An op waits in its queues, or awaits; it will end within `late`. `try_withdraw` may decline once it began."""
        self._tickets[index] = try_withdraw
        identity = identity_of(self.frame, index)
        if identity[0]:
            self._producers.in_flight[identity] = []

    def joins(self, index: int) -> bool:
        """Whether an op of the same identity is still waiting; if so this one ends with it, as its repetition."""
        joined = self._producers.in_flight.get(identity_of(self.frame, index))
        if joined is None:
            return False

        def ended(outcome: Outcome) -> None:
            with self.late(index):
                self.repeated(index, outcome)

        self._tickets[index] = lambda: False
        joined.append(ended)
        return True

    @contextmanager
    def late(self, index: int, first_row: int | None = None) -> Iterator[None]:
        """Around the end of an op that had to wait: its outcome becomes a part of its own.

        `first_row` is its first row in the open group, if it has written any already.
        """
        if self._during:  # it ended within the frame's own pass after all
            self._tickets.pop(index, None)
            self._producers.in_flight.pop(identity_of(self.frame, index), None)
            yield
            return
        first = self.answer
        row = len(self._tree.changes) if first_row is None else first_row
        self._late = index
        self.answer = Answer(first.seq, first.count, self._tree.revision)
        try:
            yield
        except WorldError as error:
            self.failed(index, error)
        finally:
            self._late = None
        self._tickets.pop(index, None)
        outcome = self.answer.outcomes[-1].outcome
        self._end_part(first, index, row)
        for joined in self._producers.in_flight.pop(identity_of(self.frame, index), ()):
            joined(outcome)

    def finish(self) -> None:
        """Ends the pass: says who caused its changes, keeps the answer, and sends the first part when durable."""
        self._during = False
        answer = self.answer
        answer.pending = sorted(self._tickets)
        answer.revision = self._tree.revision
        self._attribute()
        if self.frame.return_versions:
            answer.versions = self._versions()
        if self._owned and any(code != Code.QUERY for code in self.frame.codes):
            self._keep_answer(answer)
        self._send(answer)
        if self._tickets and self.frame.deadline_ns:
            delay_s = (self.frame.deadline_ns - self._clock.monotonic_ns()) / 1e9
            self._deadline = self._clock.call_later(max(delay_s, 0.0), self._give_up)

    def join(self, deliver: Deliver) -> None:
        """The same frame was sent again while ops of it wait: answers go there from now on."""
        self._deliver = deliver
        self._open_group = 0
        self._send(replace(_copy(self.answer), part=0))

    def abandon(self, error: WorldError) -> None:
        """The world is gone: tells so of every op that waits, at once. Whatever still happens to them is lost."""
        waiting = sorted(self._tickets)
        revision, part = self._tree.revision, self.answer.part + 1
        outcomes = [Listed(index, error) for index in waiting]
        self._deliver(
            Answer(self.frame.seq, len(self.frame.keys), revision, part, waiting, outcomes, revision=revision)
        )

    def when_ended(self, call: Callable[[], object]) -> None:
        """Calls once when no op of the frame waits any more."""
        self._ended = call

    @property
    def is_waiting(self) -> bool:
        """Whether ops of the frame have not ended."""
        return bool(self._tickets)

    def _end_part(self, first: Answer, index: int, row: int) -> None:
        ended, self.answer = self.answer, first
        attribute_op(self._tree.changes, self.frame, row, index)
        is_new = self._open_group != self._tree.changes.number
        if is_new:
            first.part += 1
            self._part = Answer(first.seq, first.count, ended.base_revision, first.part)
            self._part_kept = Answer(first.seq, first.count, ended.base_revision, first.part)
        self._part.pending = first.pending = sorted(self._tickets)
        self._part.revision = first.revision = self._tree.revision
        # The whole answer is for repetitions; its first part's ranks stay true, this op's revision is listed.
        for answer in (first, self._part):
            answer.outcomes.extend(ended.outcomes)
            answer.without_revision.append(index)
        if self._kept is not None:
            self._keep_part(index, ended, is_new)
        if is_new:
            self._open_group = self._send(self._part)
        if self._tickets:
            return
        if self._deadline is not None:
            self._deadline.cancel()
        if self._ended is not None:
            self._ended()

    def _send(self, answer: Answer) -> int:
        """Queues a part; the group that it waits for, 0 if it was sent at once."""
        # A copy of a first part that still grows: what ends meanwhile may be durable later.
        grows = bool(answer.pending) and not answer.part
        group = self._commits.answer(self._deliver, _copy(answer) if grows else answer)
        self._commits.touch()
        return group

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

    def _keep_answer(self, answer: Answer) -> None:
        # Copies when the answer still grows: one to grow with it, one as the record has to tell it now.
        kept = self._sessions.keep(self.frame.client_id, _copy(answer) if answer.pending else answer)
        self._kept = kept
        told = _copy(kept) if answer.pending else kept
        self._tree.changes.answers.append(KeptAnswer(self.frame.client_id, answer.seq, told))

    def _keep_part(self, index: int, ended: Answer, is_new: bool) -> None:
        """Lets the kept answer grow by what has ended; the record tells only that."""
        whole, part = self._kept, self._part_kept
        assert whole is not None, "the first part was kept"
        whole.part, whole.pending, whole.revision = part.part, self._part.pending, self._part.revision
        for answer in (whole, part):
            answer.outcomes.extend(strip_reads(ended).outcomes)
            answer.without_revision.append(index)
        self._sessions.grew(self.frame.client_id)
        if is_new:
            self._tree.changes.answers.append(KeptAnswer(self.frame.client_id, part.seq, part))

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

    def _give_up(self) -> None:
        """The caller's deadline: ops that have not started leave their queues."""
        for index, try_withdraw in list(self._tickets.items()):
            if try_withdraw():
                with self.late(index):
                    raise DeadlineExceeded("the deadline passed while the op waited for its turn", Executed.NO)


def _copy(answer: Answer) -> Answer:
    """A copy that no longer grows with the original."""
    return replace(answer, outcomes=list(answer.outcomes), without_revision=list(answer.without_revision))


def _without(kept: Answer, again: set[int]) -> Answer:
    """A kept answer to go on with: nothing of it is pending now, and nothing is said of the ops to be run again."""
    return replace(
        kept,
        part=0,
        pending=[],
        outcomes=[listed for listed in kept.outcomes if listed.index not in again],
        without_revision=[index for index in kept.without_revision if index not in again],
    )


def _let_go(error: WorldError) -> None:
    """Of how it came about: the error may be kept for long, and its traceback holds the whole frame."""
    error.__traceback__ = error.__context__ = None
