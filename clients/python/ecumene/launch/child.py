"""Runs inside the subprocess: ties its life to that of its parent, then becomes the service.

    python -m ecumene.launch.child LIFELINE GRACE_S SERVICE [ARGUMENT ...]

LIFELINE is the descriptor of its lifeline. When the parent is gone, the service gets the same SIGTERM that an orderly
stop sends, and SIGKILL with all that it started if that takes longer than GRACE_S.
"""

from __future__ import annotations

import gc
import os
import signal
import sys

from ecumene.launch.discovery import load_service
from ecumene.lifeline import hold_lifeline


def main(arguments: list[str]) -> int:
    """Run the service named by the arguments and return its exit code."""
    lifeline, grace_s, service, *rest = arguments
    hold_lifeline(int(lifeline), lambda: os.kill(os.getpid(), signal.SIGTERM), grace_s=float(grace_s))
    gc.disable()  # all that is imported stays: looking through it again and again is a quarter of a start
    run = load_service(service)
    gc.freeze()
    gc.enable()
    return int(run(rest) or 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
