"""Sessions: the answers kept for each client id until it acknowledges them, and what is known of ids forgotten.

A frame must never be executed twice, also when the session that kept its answer has been forgotten. Four numbers of log
records decide, and none of them grows with what was forgotten:

    position     the first record that was not durable yet when a stream was welcomed
    since        what a client says that comes again: the position of the stream on which the oldest frame that it will
                 send again was sent first; 0 = it will send none again
    used         of a session: the record that holds the last answer kept for it
    forgotten    the highest `used` of all sessions that were forgotten

A frame is executed in a record that is not durable when its stream is welcomed, so not below that stream's position.
That also holds over crashes: numbers of lost records are used again, those of durable ones never. So a session that
kept the answer of a frame which its client may send again has used >= since; once it is forgotten, forgotten >= since,
and the client is refused: SESSION_EXPIRED.

If forgotten < since, no session was forgotten that kept an answer to anything sent since then. A client that is
unknown all the same was never heard (its first frames went down with a cut link, or with the records of a server that
was killed before they were durable), had no write kept under its own number, or has acknowledged all of them: what
it sends is executed now. Refused without need is only who has frames unanswered from before the time at which a session
was last used that is forgotten by now, so that many others were used meanwhile.

The number `forgotten` is written in the same commit as the deletions of the sessions that it stands for; sessions whose
deletion is not durable come back with a restart. The log may bring back a part of one that was deleted: such a session
has the number as its `floor`, and takes its place in the comparison. A session with a stream is never forgotten.

A client that says nothing of what it will send again is taken for a new one. Once something was forgotten, one that is
not known may then begin only with its frame 1.
"""

from typing import Final

from env_server.idempotency.kept_answers import Session, strip_reads, weigh
from env_server.model.errors import OutOfRange, Reason, SessionExpired
from env_server.model.frames import Answer, Listed
from env_server.model.limits import Limits
from env_server.model.ports import SessionMark

FORGOTTEN: Final = "~forgotten"
"""In the place of a client id, which it cannot be: the row whose `used` is that of all sessions forgotten."""


class Sessions:
    """Sessions of one world. Beyond `sessions_max` the longest idle one that has no stream is forgotten."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._live: dict[str, Session] = {}
        #: Those without a stream, the longest idle first.
        self._idle: dict[str, Session] = {}
        #: Client ids of which the state tables have a row, and those whose row, or its lack, is out of date.
        self._saved: set[str] = set()
        self._unsaved: set[str] = set()
        self._forgotten = 0
        self._forgotten_saved = 0

    def __len__(self) -> int:
        return len(self._live) + len(self._idle)

    def open(self, client_id: str, since: int | None = None) -> int:
        """A stream of the client begins: its last number of which an answer was kept; 0 = none. `close` follows.

        `since` is what the client says of the frames that it will send again; None = nothing.

        Raises:
            SessionExpired: answers to them may have been forgotten.
        """
        session = self._find(client_id)
        floor = self._forgotten if session is None else session.floor
        if since and since <= floor:
            raise SessionExpired(client_id)
        if session is None:
            session = self._begin(client_id, is_doubtful=since is None and floor > 0)
        elif since is not None:
            session.is_doubtful = False
        if since == 0:
            session.floor = 0  # nothing that it may lack will be asked for
        session.streams += 1
        self._idle.pop(client_id, None)
        self._live[client_id] = session
        return session.last_seq

    def close(self, client_id: str) -> None:
        """A stream of the client has ended."""
        session = self._live.get(client_id)
        if session is None:
            return
        session.streams -= 1
        if not session.streams:
            self._idle[client_id] = self._live.pop(client_id)
            self.forget_idle()

    def use(self, client_id: str) -> Session:
        """The client's session, begun when there is none; it is now the last one used."""
        session = self._live.get(client_id)
        if session is None:
            session = self._idle.pop(client_id, None) or self._begin(client_id, is_doubtful=self._forgotten > 0)
            self._idle[client_id] = session
        return session

    def kept(self, client_id: str, seq: int) -> Answer | None:
        """The kept answer of a frame; None when it must be executed.

        Raises:
            OutOfRange: SEQUENCE_PASSED when the client has acknowledged the frame, or too many came after it.
            SessionExpired: the client may have been forgotten, and the frame is not its first.
        """
        session = self.use(client_id)
        kept = session.answers.get(seq)
        if kept is None and seq <= session.acknowledged:
            raise OutOfRange(
                Reason.SEQUENCE_PASSED,
                f"frame {seq} was acknowledged, or too many came after it",
                metadata={"seq": str(seq), "last_seq": str(session.last_seq)},
            )
        if session.is_doubtful:
            if seq > 1:
                raise SessionExpired(client_id)
            session.is_doubtful = False
        return kept

    def keep(self, client_id: str, answer: Answer, record: int) -> Answer:
        """Keeps an answer without its reads, in this log record; returns what it was before any of it was dropped.

        The answer of a frame with ops that wait is from then on the session's, which lets it grow by `grow`.
        """
        session = self.use(client_id)
        kept = strip_reads(answer)
        session.drop(answer.seq)
        session.answers[answer.seq] = kept
        session.last_seq = max(session.last_seq, answer.seq)
        session.used = record
        session.is_doubtful = False
        if kept.outcomes:
            session.weigh(answer.seq, weigh(kept.outcomes))
        if len(session.answers) > self._limits.session_frames_kept_max:
            # Frames with ops that wait stay: nobody could have acknowledged them.
            oldest = min((number for number, one in session.answers.items() if not one.pending), default=0)
            session.acknowledged = max(session.acknowledged, oldest)
            session.drop(oldest)
        session.lighten(self._limits.session_answers_bytes_max)
        self._unsaved.add(client_id)
        return kept

    def grow(self, client_id: str, answer: Answer, outcomes: list[Listed], record: int) -> None:
        """A kept answer of the client grows by what has ended now."""
        answer.outcomes.extend(outcomes)
        session = self._find(client_id)
        if session is None or session.answers.get(answer.seq) is not answer:  # forgotten, acknowledged, or asked again
            return
        session.used = record
        session.weigh(answer.seq, weigh(outcomes))
        session.lighten(self._limits.session_answers_bytes_max)
        self._unsaved.add(client_id)

    def acknowledge(self, client_id: str, seq: int) -> None:
        """Forgets the answers of frames up to `seq`."""
        session = self._find(client_id)
        if session is None:
            return
        session.acknowledged = max(session.acknowledged, min(seq, session.last_seq))
        for old in [number for number in session.answers if number <= seq]:
            session.drop(old)
        self._unsaved.add(client_id)

    def load(self, mark: SessionMark) -> None:
        """Takes over a session of the state tables. Those used last come last."""
        if mark.client_id == FORGOTTEN:
            self._forgotten = self._forgotten_saved = max(self._forgotten, mark.used)
            return
        session = self._idle[mark.client_id] = Session(mark.client_id, mark.floor)
        self._saved.add(mark.client_id)
        session.last_seq, session.acknowledged, session.used = mark.last_seq, mark.acknowledged, mark.used
        for answer in mark.answers:
            session.answers[answer.seq] = answer
            session.weigh(answer.seq, weigh(answer.outcomes))

    def replay(self, client_id: str, answer: Answer, record: int) -> None:
        """Takes over an answer of the log: the first part, or what a later part adds to it.

        Forgets nobody before all is known: one who had a stream would come back with a part of the answers only.
        """
        if not answer.part:
            if client_id not in self._idle:
                self._idle[client_id] = Session(client_id, self._forgotten)
            self.keep(client_id, answer, record)
            return
        session = self._find(client_id)
        kept = session and session.answers.get(answer.seq)
        if not kept:  # acknowledged, or forgotten for newer ones
            return
        known = {listed.index for listed in kept.outcomes}.union(kept.dropped)
        kept.without_revision.extend(op for op in answer.without_revision if op not in kept.without_revision)
        kept.pending = [op for op in kept.pending if op not in answer.without_revision]
        self.grow(client_id, kept, [listed for listed in answer.outcomes if listed.index not in known], record)

    def forget_idle(self, coming: int = 0) -> None:
        """Keeps within the bound, with room for so many more; after loading and replaying."""
        while self._idle and len(self) + coming > self._limits.sessions_max:
            client_id = next(iter(self._idle))
            session = self._idle.pop(client_id)
            self._forgotten = max(self._forgotten, session.used)
            if client_id in self._saved:
                self._unsaved.add(client_id)
            else:
                self._unsaved.discard(client_id)

    def round(self) -> dict[str, SessionMark | None]:
        """The sessions that the state tables lack."""
        taken, self._unsaved = self._unsaved, set()
        marks: dict[str, SessionMark | None] = {}
        for client_id in taken:
            session = self._find(client_id)
            if session is None:
                marks[client_id] = None
                self._saved.discard(client_id)
            else:
                self._saved.add(client_id)
                marks[client_id] = session.mark()
        if self._forgotten > self._forgotten_saved:
            self._forgotten_saved = self._forgotten
            marks[FORGOTTEN] = SessionMark(FORGOTTEN, 0, (), 0, self._forgotten)
        return marks

    def _find(self, client_id: str) -> Session | None:
        return self._live.get(client_id) or self._idle.get(client_id)

    def _begin(self, client_id: str, *, is_doubtful: bool) -> Session:
        self.forget_idle(1)
        session = Session(client_id, self._forgotten)
        session.is_doubtful = is_doubtful
        return session
