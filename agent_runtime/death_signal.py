"""A process that does not outlive its parent, however that one ends, and even if it is stopped itself."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

DIE_WITH = "--die-with"
"""Before the id of the parent, on the command line of a worker."""
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
