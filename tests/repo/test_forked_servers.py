"""Servers that are forked from a template are processes like those that are started from scratch."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import psutil
import pytest
from ecumene import ClientSettings, EcumeneError, connect

from env_server.diagnostics.failpoints import EXIT_STATUS
from tests import conftest
from tests.forked_servers import ForkedServer, is_template, start_forked
from tests.services import NotReadyError, ServerProcess


def test_a_server_left_running_is_seen_and_its_template_is_not(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "first"):
        before = set(conftest.list_children())
        with ServerProcess(tmp_path / "data") as server:
            assert isinstance(server._living(), ForkedServer)
            assert [str(server.pid) in leak for leak in conftest.find_new_processes(before)] == [True]
            parent = psutil.Process(server.pid).parent()
            assert parent is not None and is_template(parent.pid)
        assert conftest.find_new_processes(before) == []


def test_its_end_is_told_however_it_comes(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path / "data").start()
    with pytest.raises(subprocess.TimeoutExpired):
        server._living().wait(0.05)
    assert server.stop() == 0
    process = server.start()._living()
    server.kill()
    assert process.wait() == -signal.SIGKILL
    assert "stopped" in server.log_path.read_text()


def test_a_server_that_cannot_start_says_why(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server, pytest.raises(NotReadyError, match="listens there") as refused:
        ServerProcess(tmp_path / "other", port=server.port).start()
    assert refused.value.exit_code == 1


def test_lives_that_follow_each_other_have_different_templates(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        parents = {psutil.Process(server.pid).ppid()}
        server.stop()
        server.start()
        assert psutil.Process(server.pid).ppid() not in parents, "they would hash alike"


def test_an_environment_that_a_test_has_changed_needs_a_process_from_scratch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    with (tmp_path / "log").open("wb") as log:
        assert start_forked(["--print-config"], log.fileno()) is None
    with ServerProcess(tmp_path / "data") as server:
        assert psutil.Process(server.pid).environ()["TZ"] == "Asia/Kolkata"


async def test_a_failpoint_of_a_test_is_armed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAILPOINT", "after_commit:exit:5")
    server = ServerProcess(tmp_path / "data").start()
    assert isinstance(server._living(), ForkedServer)
    with pytest.raises(EcumeneError):
        async with connect(server.address, "new", create=True, settings=ClientSettings(flush_timeout_s=0.1)) as world:
            for number in range(5):
                await world.environment(f"/room-{number}", timeout_s=0.5).register()
    assert server.wait() == EXIT_STATUS
