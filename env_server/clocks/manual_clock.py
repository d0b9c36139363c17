"""The simulated clock: time that stands still until it is told to go on."""

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count

STEPS_MAX = 1_000_000


class Alarm:
    """A scheduled call. See ports.Handle."""

    __slots__ = ("call",)

    def __init__(self, call: Callable[[], None]) -> None:
        self.call: Callable[[], None] | None = call

    def cancel(self) -> None:
        """See Handle."""
        self.call = None


class ManualClock:
    """See ports.Clock. Calls of one instant happen in the order in which they were scheduled."""

    def __init__(self, now_ns: int = 0, origin: str = "") -> None:
        self._now_ns = now_ns
        self._origin = origin
        self._soon: deque[Callable[[], None]] = deque()
        self._alarms: list[tuple[int, int, Alarm]] = []
        self._orders = count()

    def monotonic_ns(self) -> int:
        """See Clock."""
        return self._now_ns

    def origin(self) -> str:
        """See Clock."""
        return self._origin

    def wall_ns(self) -> int:
        """See Clock; the simulated world began in 1970."""
        return self._now_ns

    def call_soon(self, call: Callable[[], None]) -> None:
        """See Clock."""
        self._soon.append(call)

    def call_later(self, delay_s: float, call: Callable[[], None]) -> Alarm:
        """See Clock."""
        alarm = Alarm(call)
        heappush(self._alarms, (self._now_ns + max(0, round(delay_s * 1e9)), next(self._orders), alarm))
        return alarm

    @property
    def idle(self) -> bool:
        """Whether nothing happens any more while time stands still."""
        return not self._soon

    def step(self) -> None:
        """Runs what is due in this loop step; what that adds is for the next one."""
        for _ in range(len(self._soon)):
            self._soon.popleft()()

    def settle(self) -> None:
        """Runs everything that needs no more time.

        Raises:
            RuntimeError: it does not come to an end.
        """
        for _ in range(STEPS_MAX):
            if not self._soon and not self._ring():
                return
            self.step()
        raise RuntimeError(f"still busy after {STEPS_MAX} steps")

    def advance(self, seconds: float) -> None:
        """Lets time pass; alarms ring in order of their time, and all settles after each."""
        end_ns = self._now_ns + round(seconds * 1e9)
        self.settle()
        while self._alarms and self._alarms[0][0] <= end_ns:
            self._now_ns = max(self._now_ns, self._alarms[0][0])
            self.settle()
        self._now_ns = end_ns

    def stall(self, seconds: float) -> None:
        """Lets time pass while nothing runs, as when the process is stopped; what was due meanwhile comes late."""
        self._now_ns += round(seconds * 1e9)

    def _ring(self) -> bool:
        """Runs the alarms that are due now; whether there were any."""
        rang = False
        while self._alarms and self._alarms[0][0] <= self._now_ns:
            _, _, alarm = heappop(self._alarms)
            call, alarm.call = alarm.call, None
            if call is not None:
                call()
            rang = True
        return rang
