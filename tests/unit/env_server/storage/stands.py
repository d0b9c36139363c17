"""The two stands on which commit logs are checked: a directory with LMDB, and memory with a clock."""

import queue
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from env_server.model.limits import Limits
from env_server.storage.lmdb_log import LmdbCommitLog
from env_server.storage.memory import MemoryCommitLog, MemoryDisk

WAIT_S = 30.0


class LmdbStand:
    """Logs of one directory; their writers' reports arrive through a queue."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.durable: list[int] = []
        self.fatal: list[BaseException] = []
        self._calls: queue.Queue[tuple[Callable[[Any], None], Any]] = queue.Queue()

    def open(self, limits: Limits) -> LmdbCommitLog:
        return LmdbCommitLog.open(self.directory, limits, lambda: "history-1")

    def start(self, log: LmdbCommitLog) -> None:
        log.start(
            call=lambda call, argument: self._calls.put((call, argument)),
            on_durable=self.durable.append,
            on_fatal=self.fatal.append,
        )

    def wait(self, number: int) -> None:
        while not self.durable or self.durable[-1] < number:
            self.receive()

    def receive(self) -> None:
        """Waits for the next report."""
        call, argument = self._calls.get(timeout=WAIT_S)
        call(argument)

    def receive_all(self) -> None:
        """Takes the reports that are there."""
        while not self._calls.empty():
            self.receive()


class StepClock:
    """A clock whose steps a test takes one by one."""

    def __init__(self) -> None:
        self.agenda: deque[Callable[[], None]] = deque()

    def monotonic_ns(self) -> int:
        return 0

    def wall_ns(self) -> int:
        return 0

    def call_soon(self, call: Callable[[], None]) -> None:
        self.agenda.append(call)

    def call_later(self, delay_s: float, call: Callable[[], None]) -> Any:
        raise NotImplementedError

    def step(self) -> None:
        """Runs what was on the agenda."""
        for _ in range(len(self.agenda)):
            self.agenda.popleft()()


class MemoryStand:
    """Logs of one memory disk."""

    def __init__(self) -> None:
        self.disk = MemoryDisk()
        self.clock = StepClock()
        self.durable: list[int] = []
        self.fatal: list[BaseException] = []

    def open(self, limits: Limits) -> MemoryCommitLog:
        return MemoryCommitLog.open(self.disk, self.clock, limits, lambda: "history-1")

    def start(self, log: MemoryCommitLog) -> None:
        log.start(
            call=lambda call, argument: call(argument), on_durable=self.durable.append, on_fatal=self.fatal.append
        )

    def wait(self, number: int) -> None:
        self.clock.step()
        assert self.durable
        assert self.durable[-1] == number
