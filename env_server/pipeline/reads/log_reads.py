"""Reading the log without waiting for it: what is found is handed on in a later loop step."""

from collections.abc import Callable
from typing import NamedTuple

from env_server.events.history import History
from env_server.model.changes import Changes
from env_server.model.errors import OutOfRange
from env_server.model.ports import Clock, CommitLog

ReadLogThen = Callable[[int, int, Callable[[list[Changes] | BaseException], None]], None]
"""(from_revision, bytes_max, then): reads as ReadLog does and hands the groups, or what went wrong, to `then` later."""


class Retained(NamedTuple):
    """What can still be read of a world's events: the late ones in the ring, the rest in the log."""

    history: History
    read_log_then: ReadLogThen
    first_revision: Callable[[], int]
    """The oldest revision in the log, one more than the head when it is empty."""


def read_at_once(log: CommitLog, clock: Clock) -> ReadLogThen:
    """Reads in a loop step of the world's own, as befits a log in memory."""

    def read(from_revision: int, bytes_max: int, then: Callable[[list[Changes] | BaseException], None]) -> None:
        def call() -> None:
            try:
                found: list[Changes] | BaseException = log.read(from_revision, bytes_max)
            except OutOfRange as error:
                found = error
            then(found)

        clock.call_soon(call)

    return read
