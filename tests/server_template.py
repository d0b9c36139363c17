"""A server that is imported once and starts by forking: what 400 starts would spend on imports, a few templates do.

    python -m tests.server_template CONTROL      CONTROL: descriptor of a stream socket

Each request is one JSON line, answered by one:

    {"start": [ARGUMENT ...], "failpoint": TEXT}  with descriptors: stdout, stderr, life ──► {"pid": …}
    {"wait": PID}                                 of one that has ended or is about to   ──► {"code": …}

`life` is open in the server alone: who has the other end of the pipe sees its end when the server is gone. The end of
CONTROL ends the template; its servers live on.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import sys

from env_server import server
from env_server.diagnostics import failpoints
from tests.forked_servers import LINE_BYTES_MAX


def main() -> int:
    """Serve until CONTROL ends; in a server that was forked, be that server and return its exit code."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _import_what_starts_import()
    gc.collect()
    gc.freeze()
    control = socket.socket(fileno=int(sys.argv[1]))
    while True:
        line, descriptors, _, _ = socket.recv_fds(control, LINE_BYTES_MAX, 3)
        if not line:
            return 0
        request = json.loads(line)
        if "wait" in request:
            _, status = os.waitpid(request["wait"], 0)
            control.sendall(json.dumps({"code": os.waitstatus_to_exitcode(status)}).encode())
        elif pid := os.fork():
            for descriptor in descriptors:
                os.close(descriptor)
            control.sendall(json.dumps({"pid": pid}).encode())
        else:
            control.close()
            return _become_server(request, *descriptors)


def _become_server(request: dict[str, object], stdout: int, stderr: int, life: int) -> int:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.set_inheritable(life, False)
    for descriptor, place in ((stdout, 1), (stderr, 2)):
        os.dup2(descriptor, place)
        os.close(descriptor)
    arguments = request["start"]
    assert isinstance(arguments, list)
    sys.argv = [server.__file__, *arguments]
    failpoints._armed.update(failpoints.parse_failpoints(str(request["failpoint"])))
    return server.main()


def _import_what_starts_import() -> None:
    import uvloop  # noqa: F401 - by the server, when it chooses its loop

    from env_server.behaviours import registry

    registry.load([])


if __name__ == "__main__":
    sys.exit(main())
