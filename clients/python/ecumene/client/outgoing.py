"""What a session says next: acknowledgements and other control messages first, then reports of clocks, then frames.

Small messages travel together, as many as the server takes in one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from env_api.v1 import session_pb2

from ecumene.client.clock_reports import ReportTable
from ecumene.client.outbox import Outbox

BATCH_REQUESTS_MAX = 1000
"""The contract allows so many in one message."""


class Outgoing:
    """The messages of one stream after another, in their order; `wake` is called when there is a new one."""

    def __init__(self, outbox: Outbox, reports: ReportTable, wake: Callable[[], None]) -> None:
        self._outbox = outbox
        self._reports = reports
        self._wake = wake
        self._controls: deque[session_pb2.SessionRequest] = deque()
        self._left_over: bytes | None = None
        """What did not fit into the last message."""
        self._batch_bytes_max = 0
        self.is_draining = False
        """The server asked for no new frames on this stream."""

    def attach(self, batch_bytes_max: int) -> None:
        """A new stream begins, on which messages of several requests hold so many bytes at most."""
        self._left_over, self._batch_bytes_max, self.is_draining = None, batch_bytes_max, False

    def detach(self) -> None:
        """The stream is gone, and what was to be said on it alone."""
        self._controls.clear()

    def send_control(self, message: session_pb2.SessionRequest) -> None:
        """Queue what is said before all frames."""
        self._controls.append(message)
        self._wake()

    def acknowledge(self) -> None:
        """Queue the acknowledgement of answers, if one is due."""
        seq = self._outbox.next_acknowledgement()
        if seq is not None:
            self.send_control(session_pb2.SessionRequest(acknowledge=session_pb2.FrameAcknowledge(seq=seq)))

    def gather(self) -> bytes | None:
        """All that is to be said, as far as one message holds it; None = nothing."""
        message, self._left_over = self._left_over or self._next_message(), None
        if message is None or len(message) > self._batch_bytes_max:
            return message
        gathered, room = [message], self._batch_bytes_max - len(message)
        while len(gathered) < BATCH_REQUESTS_MAX and (message := self._next_message()) is not None:
            if len(message) > room:
                self._left_over = message
                break
            gathered.append(message)
            room -= len(message)
        if len(gathered) == 1:
            return gathered[0]
        return session_pb2.SessionRequest(batch=session_pb2.RequestBatch(requests=gathered)).SerializeToString()

    def _next_message(self) -> bytes | None:
        if self._controls:
            return self._controls.popleft().SerializeToString()
        if self.is_draining:
            return None
        # That a participant is idle holds for the ops that came before, too.
        report = self._reports.next_message(all_sent=not self._outbox.has_unsent)
        return self._outbox.next_message() if report is None else report.SerializeToString()
