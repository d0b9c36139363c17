"""An event loop whose time jumps: whenever nothing is ready, it goes on at once to the next timer.

Real sockets work in it as long as both ends live in this process: what one end writes to loopback can be read at the
other end at once, so when nothing is ready, nothing is on its way. A minute of rate limits then takes as long as the
work in it.
"""

from __future__ import annotations

import asyncio
import functools
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

STEPS_IDLE_MAX = 5


class JumpingSelector(selectors.DefaultSelector):  # type: ignore[misc,valid-type]
    """Selects without waiting; time that would have passed is added to the loop's."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 1000.0

    def select(self, timeout: float | None = None) -> Any:
        """What is ready now. Waits for real only when no timer is set: for other threads."""
        for _ in range(STEPS_IDLE_MAX):
            if ready := super().select(0):
                return ready
            if timeout is not None and timeout <= 0:
                return ready
        if timeout is None:
            return super().select(5.0)
        self.now_s += timeout
        return []


class SimulatedLoop(asyncio.SelectorEventLoop):
    """See the module."""

    def __init__(self) -> None:
        self._jumping = JumpingSelector()
        super().__init__(self._jumping)
        # Timers of the same instant fire together although floats were added on the way.
        self._clock_resolution = 1e-6

    def time(self) -> float:
        """Simulated seconds."""
        return self._jumping.now_s


def run_simulated(main: Coroutine[Any, Any, T]) -> T:
    """Runs `main` in simulated time and returns its result; fails if it leaves a task behind."""
    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:

        async def run() -> T:
            result = await main
            left = asyncio.all_tasks() - {asyncio.current_task()}
            assert not left, f"tasks are left: {left}"
            return result

        return runner.run(run())


def simulated(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Makes an async test a plain one that runs in simulated time."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        run_simulated(test(*args, **kwargs))

    return run


def now_s() -> float:
    """Simulated time of the running loop."""
    return asyncio.get_running_loop().time()
