"""Servers forked from templates that have imported everything already; see server_template.py.

A start costs a tenth of what `python -m env_server.server` costs, and gives the same: a process of its own with its own
descriptors, that is killed, stopped and waited for like any other. Starts take turns between two templates, so that a
server that is started again hashes otherwise than it did before, as it would anywhere.
"""

from __future__ import annotations

import atexit
import itertools
import json
import math
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parents[1]
TEMPLATES = 2
LINE_BYTES_MAX = 1 << 16
_TAKEN_OVER = ("PYTEST_CURRENT_TEST", "FAILPOINT")
"""Of the environment, what a template hands on at each start, and what no server reads."""


class ForkedServer:
    """One forked process, with the part of `subprocess.Popen` that tests need."""

    def __init__(self, template: _Template, pid: int, stdout: IO[bytes], life: int) -> None:
        self._template = template
        self._life = life
        self.pid = pid
        self.stdout: IO[bytes] | None = stdout
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """The exit code; None while it runs."""
        return self._look(0)

    def wait(self, timeout: float | None = None) -> int:
        """Until it has ended; returns the exit code. Raises subprocess.TimeoutExpired."""
        code = self._look(timeout)
        if code is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired("server", timeout)
        return code

    def terminate(self) -> None:
        """SIGTERM, unless it has ended."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL, unless it has ended."""
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)  # nobody else waits for it: the id is its own

    def _look(self, timeout_s: float | None) -> int | None:
        if self.returncode is not None:
            return self.returncode
        ended = select.poll()  # a test may have opened more descriptors than `select.select` knows
        ended.register(self._life, select.POLLIN | select.POLLHUP)
        if ended.poll(None if timeout_s is None else math.ceil(timeout_s * 1000)):
            self.returncode = self._template.wait(self.pid)
            os.close(self._life)
        return self.returncode


class _Template:
    """One process that has imported the server."""

    def __init__(self) -> None:
        self._control, theirs = socket.socketpair()
        command = [sys.executable, "-m", "tests.server_template", str(theirs.fileno())]
        self._process = subprocess.Popen(
            command, cwd=ROOT, env=_environment, stdout=subprocess.DEVNULL, pass_fds=(theirs.fileno(),)
        )
        theirs.close()
        self._asking = threading.Lock()
        self.pid = self._process.pid
        atexit.register(self.end)

    def start(self, arguments: Sequence[str], stderr: int) -> ForkedServer:
        """Fork a server. Raises OSError: the template is gone."""
        output, stdout = os.pipe()
        life, held = os.pipe()
        request = {"start": arguments, "failpoint": os.environ.get("FAILPOINT", "")}
        try:
            pid = self._ask(request, (stdout, stderr, held))["pid"]
        finally:
            os.close(stdout)
            os.close(held)
        return ForkedServer(self, pid, open(output, "rb", buffering=0), life)  # noqa: PTH123

    def wait(self, pid: int) -> int:
        """The exit code of a server of this template that has ended."""
        return self._ask({"wait": pid})["code"]

    def end(self) -> None:
        """Let it go; its servers stay."""
        self._control.close()
        self._process.wait()

    def _ask(self, request: dict[str, object], descriptors: Sequence[int] = ()) -> dict[str, int]:
        line = json.dumps(request).encode()
        assert len(line) < LINE_BYTES_MAX
        with self._asking:
            socket.send_fds(self._control, [line], descriptors)
            answer = self._control.recv(LINE_BYTES_MAX)
        if not answer:
            raise OSError("the template of the servers is gone")
        answered: dict[str, int] = json.loads(answer)
        return answered


def start_forked(arguments: Sequence[str], stderr: int) -> ForkedServer | None:
    """Start a server; None if a test has set what only a process from scratch can heed in its environment."""
    if _read_environment() != _environment:
        return None
    turn = next(_turns) % TEMPLATES
    if turn == len(_templates):
        _templates.append(_Template())
    return _templates[turn].start(arguments, stderr)


def keep_environment() -> None:
    """Take the environment as it is for that of all servers: once tests are collected, as some libraries that they
    import change it."""
    _environment.clear()
    _environment.update(_read_environment())


def is_template(pid: int) -> bool:
    """Whether it is a process that serves all tests until the last."""
    return any(template.pid == pid for template in _templates)


def _read_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in _TAKEN_OVER}


_environment = _read_environment()
_templates: list[_Template] = []
_turns = itertools.count()
