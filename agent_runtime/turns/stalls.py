"""Notices when a step of an agent's code holds up the loop of its worker, and says whose it was.

A loop runs one step at a time: while an agent's code computes or waits without `await`, no other agent, no model's
answer and no time limit is served. A thread looks at the loop from outside: if it has not come round for too long, the
task that it is in is to blame, and the thread tells its agent and the line of code. It cannot end it; blocking code
belongs into `turn.in_thread`. Nobody is to blame for the time in which a busy machine had no core for the loop: that is
counted by Linux, and taken off.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import sysconfig
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import ecumene.client

logger = logging.getLogger("ecumene.runtime")

STALL_S = 0.25
LOOK_S = 0.05
AGENTS_NAMED_MAX = 1_000
INSTALLED = tuple({sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})
OURS = (str(Path(__file__).resolve().parents[1]), str(Path(ecumene.client.__file__).resolve().parents[1]))
TURN_TASK = "turn of "
"""Begins the name of a task that runs an agent's turns; the agent's id follows."""


@dataclass(frozen=True, slots=True)
class Stall:
    """One agent's code that held up the loop."""

    agent: str
    seconds: float
    place: str
    """File and line where it was when it was noticed: of the innermost code that is neither installed nor ours."""


class StallWatch:
    """Watches one loop, from `start`, which must be called in it, to `stop`."""

    def __init__(
        self,
        stall_s: float = STALL_S,
        on_stall: Callable[[Stall], None] | None = None,
        *,
        look_s: float = LOOK_S,
        now_s: Callable[[], float] = time.monotonic,
        core_wait_s: Callable[[int], float] | None = None,
    ) -> None:
        """`on_stall` is called in the watching thread when a stall has ended. `core_wait_s` tells how long a thread has
        waited for a core so far."""
        self._stall_s = stall_s
        self._look_s = look_s
        self._on_stall = on_stall
        self._now_s = now_s
        self._core_wait_s = core_wait_s or read_core_wait_s
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._loop_thread = 0
        self._loop_native = 0
        self.stalls = 0
        """How often the loop was held up by an agent."""
        self.longest_s: dict[str, float] = {}
        """Agent -> its longest stall, of the first thousand agents."""

    def start(self) -> None:
        """Begin to watch the running loop."""
        self._loop = asyncio.get_running_loop()
        self._loop_thread, self._loop_native = threading.get_ident(), threading.get_native_id()
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
            asked_s, waited_s = self._now_s(), self._core_wait_s(self._loop_native)
            answered = threading.Event()
            try:
                self._loop.call_soon_threadsafe(answered.set)
            except RuntimeError:  # the loop is closed
                return
            # Asked once more: it may be this thread that was late.
            if answered.wait(self._stall_s) or answered.is_set():
                continue
            agent, place = self._find_culprit()
            while not answered.wait(self._look_s):
                if self._ended.is_set():
                    return
            held_s = self._now_s() - asked_s - (self._core_wait_s(self._loop_native) - waited_s)
            if agent and held_s >= self._stall_s:
                self._tell(Stall(agent, held_s, place))

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


def read_core_wait_s(native_id: int) -> float:
    """How long a thread of this process was ready to run and had no core; 0 where the system does not count that."""
    try:
        counted = Path(f"/proc/self/task/{native_id}/schedstat").read_text(encoding="ascii")
        return int(counted.split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0


def _find_place(frame: FrameType | None) -> str:
    """File and line of the innermost frame of code that somebody wrote for their agents, or else of any."""
    innermost = frame
    while frame is not None and _is_installed(frame.f_code.co_filename):
        frame = frame.f_back
    shown = frame or innermost
    return f"{shown.f_code.co_filename}:{shown.f_lineno}" if shown is not None else "an unknown place"


def _is_installed(file: str) -> bool:
    return file.startswith((*INSTALLED, *OURS, "<frozen"))
