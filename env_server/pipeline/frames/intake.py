"""Intake: frames come in, are executed in one pass each, or recognised as sent before."""

from env_server.idempotency.producers import Producers
from env_server.idempotency.sessions import Sessions
from env_server.model.errors import Exhausted, InvalidRequest, Reason, WorldError
from env_server.model.frames import Answer, Frame, Listed
from env_server.model.operations import Code
from env_server.model.ports import Clock
from env_server.pipeline.commits.admission import Admission
from env_server.pipeline.commits.commits import Commits, Deliver
from env_server.pipeline.frames.execution import Execution
from env_server.pipeline.frames.frame_answers import tell_refused
from env_server.pipeline.frames.frame_runs import FrameRun
from env_server.pipeline.frames.ready import Ready
from env_server.state_tree.tree import Tree


class Intake:
    """Frames of one world, and those of them that have ops waiting."""

    def __init__(
        self,
        tree: Tree,
        commits: Commits,
        producers: Producers,
        sessions: Sessions,
        clock: Clock,
        admission: Admission,
        execution: Execution,
        ready: Ready,
    ) -> None:
        self._tree = tree
        self._commits = commits
        self._producers = producers
        self._sessions = sessions
        self._clock = clock
        self._admission = admission
        self._execution = execution
        self._ready = ready
        self._waiting_runs: set[FrameRun] = set()
        self._waiting_frames: dict[tuple[str, int], FrameRun] = {}

    def take(self, frame: Frame, deliver: Deliver) -> None:
        """See World.execute."""
        if self._tree.answers_bytes > self._tree.limits.group_answers_bytes_max:
            self._refuse(frame, deliver, self._too_many_answers())
            return
        if frame.client_id and frame.seq and self._is_repeated(frame, deliver):
            return
        self._run(self._new_run(frame, deliver), None)

    def abandon(self, error: WorldError) -> None:
        """Tells every op that waits that its world is gone."""
        for run in list(self._waiting_runs):
            run.abandon(error)

    def _new_run(
        self, frame: Frame, deliver: Deliver, kept: Answer | None = None, again: set[int] | None = None
    ) -> FrameRun:
        return FrameRun(
            frame, deliver, self._tree, self._commits, self._producers, self._sessions, self._clock, kept, again
        )

    def _run(self, run: FrameRun, only: set[int] | None) -> None:
        self._ready.hold_back()  # not a context manager: it would cost a lone call more than its op
        try:
            self._execution.full = self._admission.refusal(len(run.frame.keys), run.frame.size_bytes)
            self._execution.run(run, only)
            run.finish()
        finally:
            self._ready.let_go()
        if run.is_waiting:
            self._waiting_runs.add(run)
            if run.frame.client_id and run.frame.seq:
                self._waiting_frames[run.frame.client_id, run.frame.seq] = run
            run.when_ended(lambda: self._forget(run))
        self._ready.drain()

    def _forget(self, run: FrameRun) -> None:
        self._waiting_runs.discard(run)
        self._waiting_frames.pop((run.frame.client_id, run.frame.seq), None)

    def _is_repeated(self, frame: Frame, deliver: Deliver) -> bool:
        waiting = self._waiting_frames.get((frame.client_id, frame.seq))
        try:
            kept = self._sessions.kept(frame.client_id, frame.seq) if waiting is None else waiting.answer
            if kept is not None and kept.count != len(frame.keys):
                problem = f"{frame.seq} was the number of another frame, of {kept.count} ops"
                raise InvalidRequest(Reason.REQUEST_ID_REUSED, "frame.seq", problem)
        except WorldError as error:
            self._refuse(frame, deliver, error)
            return True
        if waiting is not None:
            waiting.join(frame, deliver)
            return True
        if kept is None:
            return False
        missing = set(kept.pending)
        missing.update(index for index, code in enumerate(frame.codes) if code == Code.QUERY)
        self._run(self._new_run(frame, deliver, kept, missing), missing)
        return True

    def _too_many_answers(self) -> Exhausted:
        limits = self._tree.limits
        maximum = limits.group_answers_bytes_max
        problem = f"the outcomes that answers under way list exceed group_answers_bytes_max = {maximum} bytes"
        return Exhausted.of(Reason.RATE_LIMITED, "group_answers_bytes_max", maximum, problem, limits.retry_delay_ms)

    def _refuse(self, frame: Frame, deliver: Deliver, error: WorldError) -> None:
        everything = range(len(frame.keys))
        answer = Answer(frame.seq, len(frame.keys), self._tree.revision, revision=self._tree.revision)
        answer.without_revision = list(everything)
        answer.outcomes = [Listed(index, error) for index in everything]
        tell_refused(frame, error)
        self._commits.answer(deliver, answer)
