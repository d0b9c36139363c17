"""A process that does not outlive its parent, however that one ends, and even if it is stopped itself."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import sys

DIE_WITH = "--die-with"
"""Before the id of the parent, on the command line of a worker."""
OWNER = "ECUMENE_ENGINE_OWNER"
"""The variable that names the parent to processes that are not started by a command line of ours: engines of models."""
_PR_SET_PDEATHSIG = 1


def die_with(parent: int) -> None:
    """Let the system end this process by SIGKILL when `parent`, which has started it, is gone.

    The signal comes when the *thread* that started this process ends. Where the system has no such signal, the end of
    standard input is all that tells.
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
