"""Slow reads: queries that take several loop steps. Their ops wait as behind a held key, and hold nobody up."""

from collections import deque
from collections.abc import Callable

from env_server.model.errors import Exhausted, Reason, WorldError
from env_server.model.frames import Read
from env_server.model.limits import Limits
from env_server.model.ports import Clock
from env_server.pipeline.frames.frame_runs import FrameRun
from env_server.state_tree.reads.listings import SlowRead


class SlowReads:
    """The slow reads of one world that are under way. They take turns: one step of one of them a loop step.

    A step of each would hold up everybody else by the sum of them.
    """

    def __init__(self, clock: Clock, limits: Limits) -> None:
        self._clock = clock
        self._limits = limits
        self._under_way = 0
        self._rows = 0
        self._in_turn: deque[_Reading] = deque()

    @property
    def under_way(self) -> int:
        """How many have not ended."""
        return self._under_way

    def begin(self, run: FrameRun, index: int, read: SlowRead) -> None:
        """Goes on with the read until it is answered; the caller's deadline may end it before.

        Raises:
            Exhausted: QUEUE_FULL; too many are under way, or hold too much.
        """
        self.enter(read.rows)
        reading = _Reading(run, index, read, self.leave)
        run.waits(index, reading.try_stop)
        self._in_turn.append(reading)
        if len(self._in_turn) == 1:
            self._clock.call_soon(self._step)

    def enter(self, rows: int = 0) -> None:
        """Counts one more that holds so many rows, until it leaves.

        Raises:
            Exhausted: QUEUE_FULL.
        """
        limits = self._limits
        too_much = self._rows > 0 and self._rows + rows > limits.slow_reads_rows_max
        if self._under_way >= limits.slow_reads_max or too_much:
            limit = "slow_reads_rows_max" if too_much else "slow_reads_max"
            problem = f"{self._under_way} long reads with {self._rows} rows are under way"
            raise Exhausted.of(Reason.QUEUE_FULL, limit, getattr(limits, limit), problem, limits.retry_delay_ms)
        self._under_way += 1
        self._rows += rows

    def leave(self, rows: int = 0) -> None:
        """It has ended."""
        self._under_way -= 1
        self._rows -= rows

    def _step(self) -> None:
        reading = self._in_turn[0]
        goes_on = False
        try:
            goes_on = reading.step()
        finally:
            # It stays at its place while it steps: what it answers may begin others.
            self._in_turn.popleft()
            if goes_on:
                self._in_turn.append(reading)
            if self._in_turn:
                self._clock.call_soon(self._step)


class _Reading:
    """One slow read on its way."""

    __slots__ = ("_ended", "_index", "_read", "_run", "_slices", "_stopped")

    def __init__(self, run: FrameRun, index: int, read: SlowRead, ended: Callable[[int], None]) -> None:
        self._run = run
        self._index = index
        self._read = read
        self._slices = read.begin()
        self._ended = ended
        self._stopped = False

    def try_stop(self) -> bool:
        """Gives up: nobody waits for it any more."""
        self._stopped = True
        self._slices.close()
        self._ended(self._read.rows)
        return True

    def step(self) -> bool:
        """One step; whether there are more."""
        if self._stopped:
            return False
        outcome: Read | WorldError
        try:
            next(self._slices)
        except StopIteration as ended:
            outcome = ended.value
        except WorldError as error:
            outcome = error
        else:
            return True
        self._ended(self._read.rows)
        with self._run.late(self._index):
            if isinstance(outcome, WorldError):
                raise outcome
            self._run.read(self._index, outcome)
        return False
