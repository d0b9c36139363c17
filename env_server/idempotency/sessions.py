"""Sessions: the answers kept for each client id until it acknowledges them."""

from dataclasses import replace

from env_server.model.errors import OutOfRange, Reason, WorldError
from env_server.model.frames import Answer, Invoked, Transacted, Written
from env_server.model.limits import Limits
from env_server.model.ports import SessionMark


class Session:
    """What is kept for one client."""

    __slots__ = ("acknowledged", "answers", "client_id", "last_seq")

    def __init__(self, client_id: str) -> None:
        self.client_id = client_id
        self.last_seq = 0
        self.acknowledged = 0
        self.answers: dict[int, Answer] = {}


class Sessions:
    """Sessions of one world, the longest idle first. At most `sessions_max`; then the longest idle one is forgotten."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._sessions: dict[str, Session] = {}
        self._unsaved: set[str] = set()

    def use(self, client_id: str) -> Session:
        """The client's session, begun when there is none; it is now the last one used."""
        session = self._sessions.pop(client_id, None)
        if session is None:
            session = Session(client_id)
            while len(self._sessions) >= self._limits.sessions_max:
                idle = next(iter(self._sessions))
                del self._sessions[idle]
                self._unsaved.add(idle)
        self._sessions[client_id] = session
        return session

    def kept(self, client_id: str, seq: int) -> Answer | None:
        """The kept answer of a frame; None when it must be executed.

        Raises:
            OutOfRange: SEQUENCE_PASSED when the client has acknowledged the frame.
        """
        session = self.use(client_id)
        kept = session.answers.get(seq)
        if kept is None and seq <= session.acknowledged:
            raise OutOfRange(
                Reason.SEQUENCE_PASSED,
                f"frame {seq} was acknowledged",
                metadata={"seq": str(seq), "last_seq": str(session.last_seq)},
            )
        return kept

    def keep(self, client_id: str, answer: Answer) -> Answer:
        """Keeps an answer without its reads; returns what is kept."""
        session = self.use(client_id)
        kept = strip_reads(answer)
        session.answers[answer.seq] = kept
        session.last_seq = max(session.last_seq, answer.seq)
        if len(session.answers) > self._limits.session_frames_kept_max:
            # Frames with ops that wait stay: nobody could have acknowledged them.
            oldest = min((number for number, one in session.answers.items() if not one.pending), default=0)
            session.acknowledged = max(session.acknowledged, oldest)
            session.answers.pop(oldest, None)
        self._unsaved.add(client_id)
        return kept

    def grew(self, client_id: str) -> None:
        """A kept answer of the client has grown in place."""
        self._unsaved.add(client_id)

    def acknowledge(self, client_id: str, seq: int) -> None:
        """Forgets the answers of frames up to `seq`."""
        session = self.use(client_id)
        session.acknowledged = max(session.acknowledged, min(seq, session.last_seq))
        for old in [number for number in session.answers if number <= seq]:
            del session.answers[old]
        self._unsaved.add(client_id)

    def load(self, mark: SessionMark) -> None:
        """Takes over a session of the state tables."""
        session = self.use(mark.client_id)
        session.last_seq = mark.last_seq
        session.answers = {answer.seq: answer for answer in mark.answers}
        session.acknowledged = mark.acknowledged

    def replay(self, client_id: str, answer: Answer) -> None:
        """Takes over an answer of the log: the first part, or what a later part adds to it."""
        if not answer.part:
            self.keep(client_id, answer)
            return
        kept = self.use(client_id).answers.get(answer.seq)
        if kept is None:  # acknowledged, or forgotten for newer ones
            return
        known = {listed.index for listed in kept.outcomes}
        kept.outcomes.extend(listed for listed in answer.outcomes if listed.index not in known)
        kept.without_revision.extend(op for op in answer.without_revision if op not in kept.without_revision)
        kept.pending = [op for op in kept.pending if op not in answer.without_revision]
        self.grew(client_id)

    def round(self) -> dict[str, SessionMark | None]:
        """The sessions that the state tables lack."""
        taken, self._unsaved = self._unsaved, set()
        marks: dict[str, SessionMark | None] = {}
        for client_id in taken:
            session = self._sessions.get(client_id)
            marks[client_id] = (
                None
                if session is None
                else SessionMark(client_id, session.last_seq, _stable(session.answers), session.acknowledged)
            )
        return marks


def _stable(answers: dict[int, Answer]) -> tuple[Answer, ...]:
    """The answers as they are now; one with pending ops still grows, and is encoded later, on another thread."""
    return tuple(
        replace(one, outcomes=list(one.outcomes), without_revision=list(one.without_revision)) if one.pending else one
        for one in answers.values()
    )


def strip_reads(answer: Answer) -> Answer:
    """The answer without what its reads saw: a repetition runs them again."""
    kept = [listed for listed in answer.outcomes if isinstance(listed.outcome, _KEPT)]
    return answer if len(kept) == len(answer.outcomes) else replace(answer, outcomes=kept)


_KEPT = (WorldError, Written, Invoked, Transacted)
