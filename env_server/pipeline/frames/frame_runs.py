"""A frame on its way through execution: the first part of its answer, and later ones for the ops of it that wait."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from env_server.idempotency.kept_answers import strip_reads, weigh
from env_server.idempotency.producers import Producers
from env_server.idempotency.sessions import Sessions
from env_server.model.changes import KeptAnswer
from env_server.model.errors import DeadlineExceeded, Executed, WorldError
from env_server.model.frames import Answer, Frame, Listed, Outcome
from env_server.model.operations import Code
from env_server.model.ports import Clock, Handle
from env_server.pipeline.commits.commits import Commits, Deliver
from env_server.pipeline.frames.frame_answers import FrameAnswer
from env_server.pipeline.frames.origins import attribute_op, identity_of
from env_server.state_tree.tree import Tree


class FrameRun(FrameAnswer):
    """One frame being executed. The first part of its answer is sent by `finish`, later ones as waiting ops end."""

    __slots__ = (
        "_clock",
        "_commits",
        "_deadline",
        "_deliver",
        "_during",
        "_ended",
        "_kept",
        "_open_group",
        "_owned",
        "_part",
        "_part_kept",
        "_sessions",
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
        """`kept` and `again`: see FrameAnswer."""
        super().__init__(frame, tree, producers, kept, again)
        self._deliver = deliver
        self._commits = commits
        self._sessions = sessions
        self._clock = clock
        self._deadline: Handle | None = None
        self._ended: Callable[[], object] | None = None
        self._during = True
        #: What the session keeps of the whole answer.
        self._kept: Answer | None = None
        #: The last part, what is kept of it, and the group it waits for: while that is open, later ends join the part.
        self._part = self._part_kept = self.answer
        self._open_group = 0
        own = frame.producers
        #: Whether some write of the frame goes by the frame's own identity, so that its answer is kept.
        self._owned = bool(frame.client_id and frame.seq) and (own is None or "" in own)

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

    def join(self, frame: Frame, deliver: Deliver) -> None:
        """The same frame was sent again while ops of it wait: answers go there from now on, and what is refused."""
        self._deliver = deliver
        if self.frame.refused_for_now is not None:  # else the answer so far says it
            self.frame.refused_for_now = frame.refused_for_now
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
            ended_now, self._ended = self._ended, None  # it knows this run, which holds all that was answered
            ended_now()

    def _send(self, answer: Answer) -> int:
        """Queues a part; the group that it waits for, 0 if it was sent at once."""
        # A copy of a first part that still grows: what ends meanwhile may be durable later.
        grows = bool(answer.pending) and not answer.part
        group = self._commits.answer(self._deliver, _copy(answer) if grows else answer)
        self._commits.touch()
        return group

    def _keep_answer(self, answer: Answer) -> None:
        # Copies when the answer still grows: one to grow with it, one as the record has to tell it now.
        group = self._tree.changes
        kept = self._sessions.keep(self.frame.client_id, _copy(answer) if answer.pending else answer, group.number)
        self._kept = kept
        told = _copy(kept) if answer.pending else kept
        self._tree.answers_bytes += weigh(told.outcomes)
        group.answers.append(KeptAnswer(self.frame.client_id, answer.seq, told))

    def _keep_part(self, index: int, ended: Answer, is_new: bool) -> None:
        """Lets the kept answer grow by what has ended; the record tells only that."""
        whole, part = self._kept, self._part_kept
        assert whole is not None, "the first part was kept"
        outcomes, group = strip_reads(ended).outcomes, self._tree.changes
        for answer in (whole, part):
            answer.without_revision.append(index)
        part.outcomes.extend(outcomes)
        self._tree.answers_bytes += weigh(outcomes)
        self._sessions.grow(self.frame.client_id, whole, outcomes, group.number)
        whole.part, whole.pending, whole.revision = part.part, self._part.pending, self._part.revision
        if is_new:
            group.answers.append(KeptAnswer(self.frame.client_id, part.seq, part))

    def _give_up(self) -> None:
        """The caller's deadline: ops that have not started leave their queues."""
        for index, try_withdraw in list(self._tickets.items()):
            if try_withdraw():
                with self.late(index):
                    raise DeadlineExceeded("the deadline passed while the op waited for its turn", Executed.NO)


def _copy(answer: Answer) -> Answer:
    """A copy that no longer grows with the original."""
    return replace(answer, outcomes=list(answer.outcomes), without_revision=list(answer.without_revision))
