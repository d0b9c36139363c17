"""Notices when a step of an agent's code holds up the loop of its worker, and says whose it was.

A loop runs one step at a time: while an agent's code computes or waits without `await`, no other agent, no model's
answer and no time limit is served. A thread looks at the loop from outside: if it has not come round for too long, the
task that it is in is to blame, and the thread tells its agent and the line of code. It cannot end it; blocking code
belongs into `turn.in_thread`.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType

logger = logging.getLogger("ecumene.runtime")

STALL_S = 0.25
LOOK_S = 0.05
AGENTS_NAMED_MAX = 1_000
TURN_TASK = "turn of "
"""Begins the name of a task that runs an agent's turns; the agent's id follows."""


@dataclass(frozen=True, slots=True)
class Stall:
    """One agent's code that held up the loop."""

    agent: str
    seconds: float
    place: str
    """File and line where it was when it was noticed."""


class StallWatch:
    """Watches one loop, from `start`, which must be called in it, to `stop`."""

    def __init__(
        self,
        stall_s: float = STALL_S,
        on_stall: Callable[[Stall], None] | None = None,
        *,
        look_s: float = LOOK_S,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """`on_stall` is called in the watching thread when a stall has ended."""
        self._stall_s = stall_s
        self._look_s = look_s
        self._on_stall = on_stall
        self._now_s = now_s
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._loop_thread = 0
        self.stalls = 0
        """How often the loop was held up by an agent."""
        self.longest_s: dict[str, float] = {}
        """Agent -> its longest stall, of the first thousand agents."""

    def start(self) -> None:
        """Begin to watch the running loop."""
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._thread = threading.Thread(target=self._watch, name="stall watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Watch no more. Blocks for some milliseconds: on the loop itself, call it in a thread."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    # ---- in the watching thread ----

    def _watch(self) -> None:
        while not self._ended.wait(self._look_s):
            assert self._loop is not None
            asked_s = self._now_s()
            answered = threading.Event()
            try:
                self._loop.call_soon_threadsafe(answered.set)
            except RuntimeError:  # the loop is closed
                return
            if answered.wait(self._stall_s):
                continue
            agent, place = self._find_culprit()
            while not answered.wait(self._look_s):
                if self._ended.is_set():
                    return
            if agent:
                self._tell(Stall(agent, self._now_s() - asked_s, place))

    def _find_culprit(self) -> tuple[str, str]:
        """The agent whose turn the loop is in, and where; "" if it is in none."""
        task = asyncio.current_task(self._loop)
        name = task.get_name() if task is not None else ""
        if not name.startswith(TURN_TASK):
            return "", ""
        return name.removeprefix(TURN_TASK), _find_place(sys._current_frames().get(self._loop_thread))

    def _tell(self, stall: Stall) -> None:
        self.stalls += 1
        before = self.longest_s.get(stall.agent)
        if before is not None or len(self.longest_s) < AGENTS_NAMED_MAX:
            self.longest_s[stall.agent] = max(before or 0.0, stall.seconds)
        if before is None or stall.seconds > 2 * before:
            logger.warning(
                "agent %s held up its whole worker for %.2f s at %s: await, or use turn.in_thread",
                stall.agent,
                stall.seconds,
                stall.place,
            )
        if self._on_stall is not None:
            self._on_stall(stall)


def _find_place(frame: FrameType | None) -> str:
    """File and line of the innermost frame."""
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else "an unknown place"
