"""The program of a host: its arguments, and what it says when it cannot host."""

from __future__ import annotations

import subprocess
import sys

import pytest

from agent_runtime.workflows.host import EXIT_USAGE, main, parse_arguments
from tests.services import ROOT


def test_the_server_is_needed_and_the_rest_has_defaults() -> None:
    with pytest.raises(SystemExit) as caught:
        parse_arguments([])
    assert caught.value.code == 2
    arguments = parse_arguments(["--server", "a:1", "--path", "x", "--path", "y"])
    assert (arguments.world, arguments.connect_timeout_s, arguments.lease_ttl_s) == ("main", 10.0, 5.0)
    assert arguments.module == []
    assert [str(path) for path in arguments.path] == ["x", "y"]


def test_a_module_that_is_not_there_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--server", "127.0.0.1:1", "--module", "no_such_module"]) == EXIT_USAGE
    assert "cannot import 'no_such_module'" in capsys.readouterr().err


def test_a_server_that_is_not_there_is_told_in_one_line() -> None:
    absent = ("--server", "127.0.0.1:1", "--connect-timeout-s", "0.5")
    command = [sys.executable, "-m", "agent_runtime.workflows.host", *absent]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert '"state": "failed"' in done.stdout and "127.0.0.1:1" in done.stdout
    assert "Traceback" not in done.stderr
