"""A server that cannot start says why in one line, and with the exit code of its kind."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def taken_port() -> Iterator[int]:
    """A port on which somebody listens."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def refuse(data: Path, *arguments: str) -> tuple[int, str]:
    """Exit code, and the only line that was printed, of a server with these arguments."""
    command = [sys.executable, "-m", "env_server.server", "--data-dir", str(data), *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    (line,) = (ended.stdout + ended.stderr).splitlines()
    return ended.returncode, line


def test_a_taken_port(tmp_path: Path, taken_port: int) -> None:
    code, line = refuse(tmp_path, "--port", str(taken_port))
    assert code == 1
    assert line.startswith(f"error: cannot listen on 127.0.0.1:{taken_port}: another program listens there")


def test_an_address_that_is_none(tmp_path: Path) -> None:
    code, line = refuse(tmp_path, "--host", "300.1.1.1", "--insecure", "--port", "0")
    assert code == 1
    assert line.startswith("error: cannot listen on 300.1.1.1:0: ")
    assert "another program" not in line


@pytest.mark.parametrize("behaviour", ["json", "json:", ":Game"])
def test_a_behaviour_without_module_or_class(tmp_path: Path, behaviour: str) -> None:
    assert refuse(tmp_path, "--behaviour", behaviour) == (
        1,
        f"error: behaviour {behaviour!r} cannot be loaded: write module:Class",
    )
