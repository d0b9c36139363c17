"""The calls of one caller that are under way or referred to, within bounds that are told."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ecumene.workflows.calls import UNREAD, Call
from ecumene.workflows.errors import Failure, FlowFullError, ResultExpiredError
from ecumene.workflows.limits import FlowLimits
from ecumene.workflows.messages import write_failure


@dataclass(frozen=True, slots=True)
class FlowStatistics:
    """How a flow is doing, as one of its callers sees it."""

    calls: int
    """Calls sent so far."""
    pending: int
    results: int
    """Results referred to, or needed by calls under way."""
    results_bytes: int
    expired: int
    """Results dropped to stay within bounds, so far."""
    hosts: int


class CallTable:
    """Calls by number. Used under its caller's lock."""

    def __init__(self, limits: FlowLimits) -> None:
        self._limits = limits
        self._calls: dict[int, Call] = {}
        self._finished: dict[int, Call] = {}
        """In the order in which they ended."""
        self.sent = 0
        self.expired = 0
        self.results_bytes = 0

    def __len__(self) -> int:
        return len(self._calls)

    @property
    def pending(self) -> int:
        """Calls that have no outcome yet."""
        return len(self._calls) - len(self._finished)

    def statistics(self, hosts: int) -> FlowStatistics:
        """How full it is."""
        return FlowStatistics(self.sent, self.pending, len(self._finished), self.results_bytes, self.expired, hosts)

    def next_number(self) -> int:
        """The number of the next call.

        Raises:
            FlowFullError: there is no room for one.
        """
        limits = self._limits
        if len(self._calls) >= limits.results_max:
            raise FlowFullError(
                f"{len(self._calls)} calls are under way or referred to; results_max is {limits.results_max}"
            )
        if self.results_bytes > limits.results_bytes_max:
            raise FlowFullError(
                f"results that calls under way need take {self.results_bytes} bytes; results_bytes_max is "
                f"{limits.results_bytes_max}"
            )
        self.sent += 1
        return self.sent

    def add(self, call: Call) -> None:
        """Keep a call that is about to be sent."""
        self._calls[call.number] = call
        for placeholder in call.pins:
            placeholder._call.pinned += 1

    def get(self, number: int) -> Call | None:
        """A call under way or referred to."""
        return self._calls.get(number)

    def list_pending(self) -> list[Call]:
        """Calls that have no outcome yet, in the order in which they were sent."""
        return [call for call in self._calls.values() if not call.is_done]

    def finish(self, call: Call, text: str | None, large_bytes: int = 0) -> list[Call]:
        """Give a call its outcome; returns those whose results are needed no more, or had to expire.

        `text` None with `large_bytes`: it has to be fetched.
        """
        pins, call.pins = call.pins, []
        for placeholder in pins:
            placeholder._call.pinned -= 1
        call.is_done = True
        call.text, call.had_large = text, large_bytes > 0
        call.size = large_bytes or len(text or "")
        self.results_bytes += call.size
        self._finished[call.number] = call
        if call.is_dropped:
            self._forget(call)
            return [call]
        return self._expire() if self.results_bytes > self._limits.results_bytes_max else []

    def drop(self, numbers: Iterable[int]) -> list[Call]:
        """Nobody refers to these any more; returns those whose results are to be released."""
        gone = []
        for number in numbers:
            call = self._calls.get(number)
            if call is None:
                continue
            if call.is_done:
                self._forget(call)
                gone.append(call)
            else:
                call.is_dropped = True
        return gone

    def _expire(self) -> list[Call]:
        """Drop the oldest results that no call under way needs, until the bytes fit."""
        gone = []
        for call in list(self._finished.values()):
            if self.results_bytes <= self._limits.results_bytes_max:
                break
            if call.pinned or not call.size:
                continue
            text = (
                f"the result of {call}, {call.size} bytes, was dropped: results referred to took {self.results_bytes} "
                f"bytes, results_bytes_max is {self._limits.results_bytes_max}"
            )
            self.results_bytes -= call.size
            self.expired += 1
            call.text, call.value, call.size = write_failure(Failure(ResultExpiredError.code, text)), UNREAD, 0
            gone.append(call)
        return gone

    def _forget(self, call: Call) -> None:
        self.results_bytes -= call.size
        del self._calls[call.number]
        del self._finished[call.number]
