"""Runs inside the subprocess: ties its life to that of its parent, then becomes the service.

    python -m ecumene.launch.child LIFELINE SERVICE [ARGUMENT ...]

LIFELINE is the read end of a pipe whose only write end the parent holds. Its end means that the parent is gone,
however it went; the service then gets the same SIGTERM that an orderly stop sends, and SIGKILL if that takes too
long. (A parent-death signal would come when the *thread* that started the service ends.)
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

from ecumene.launch.discovery import load_service

ORPHAN_GRACE_S = 10.0


def main(arguments: list[str]) -> int:
    """Run the service named by the arguments and return its exit code."""
    lifeline, service, *rest = arguments
    guard = threading.Thread(target=end_with_parent, args=(int(lifeline),), name="lifeline", daemon=True)
    guard.start()
    return int(load_service(service)(rest) or 0)


def end_with_parent(lifeline: int) -> None:
    """Wait for the parent's end, then end this process, and after a grace its whole group."""
    os.set_inheritable(lifeline, False)
    while os.read(lifeline, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(ORPHAN_GRACE_S)
    # The parent made this process the leader of its own group: what is left in it was started by the service.
    os.killpg(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
