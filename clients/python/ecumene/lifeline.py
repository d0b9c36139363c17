"""Ending with whoever started this process.

Its lifeline is a pipe: this process reads one end, and nobody but its parent holds the other. However the parent goes,
the pipe ends. Then this process stops as if it had been told to, and is ended for good when that takes too long,
whatever its loop and its threads are doing. Services (`ecumene.launch`), workers of a runtime and hosts of workflows
hold one.

A process that stands still (SIGSTOP) reads nothing. `die_with` has the system end such a one too, at once, in no order.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable

OWNER = "ECUMENE_ENGINE_OWNER"
"""The variable that names the parent to processes that are not started by a command line of ours: engines of models."""
READ_BYTES = 65_536
EXIT_ORPHANED = 1
_PR_SET_PDEATHSIG = 1


def hold_lifeline(
    descriptor: int, stop: Callable[[], object], *, grace_s: float, hear: Callable[[bytes], object] | None = None
) -> None:
    """Have `stop` called when the pipe ends, and `grace_s` later end this process, and its group if it leads one.

    `hear` gets what the parent writes meanwhile. Both are called in a thread of their own, so that no blocked loop
    keeps this process alive; a RuntimeError in them (a loop that is closed already) is ignored.
    """
    os.set_inheritable(descriptor, False)  # a child of this process must not hold it open

    def follow() -> None:
        while data := os.read(descriptor, READ_BYTES):
            _call(hear, data)
        _call(stop)
        time.sleep(grace_s)
        end_now()

    threading.Thread(target=follow, name="lifeline", daemon=True).start()


def end_now() -> None:
    """End this process without a word; if it leads its process group, all of that."""
    if os.getpgid(0) == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(EXIT_ORPHANED)


def die_with(parent: int) -> None:
    """Let the system end this process by SIGKILL when `parent`, which has started it, is gone.

    The signal comes when the *thread* that started this process ends. Where the system has no such signal, the lifeline
    is all that tells.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it went before the signal was asked for
        os.kill(os.getpid(), signal.SIGKILL)


def die_with_owner() -> None:
    """`die_with` in the children of the process that OWNER names, and in theirs; nothing in anybody else's.

    A plugin of vllm, which calls it in each of its processes: an engine whose parent is killed would keep its GPU for
    ever, and so would the processes that compute for it.
    """
    # Known from the start, while the parent of a process that lost it is somebody else.
    parent = multiprocessing.parent_process()
    if parent is not None and parent.pid is not None and os.environ.get(OWNER) == str(parent.pid):
        die_with(parent.pid)
        os.environ[OWNER] = str(os.getpid())


def _call(told: Callable[..., object] | None, *arguments: object) -> None:
    if told is not None:
        try:
            told(*arguments)
        except RuntimeError:
            pass
