"""The checks of conftest.py see what is left running, and let pass what has ended."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading

import pytest

from tests import conftest


def test_a_thread_left_running_is_seen() -> None:
    before = set(threading.enumerate())
    release = threading.Event()
    thread = threading.Thread(target=release.wait, name="planted")
    thread.start()
    try:
        assert conftest.find_new_threads(before) == ["thread planted"]
    finally:
        release.set()
        thread.join()
    assert conftest.find_new_threads(before) == []


def test_a_process_left_running_is_seen() -> None:
    before = set(conftest.list_children())
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert [str(child.pid) in leak for leak in conftest.find_new_processes(before)] == [True]
    finally:
        child.communicate(b"\n")
    assert conftest.find_new_processes(before) == []


async def test_a_task_left_running_is_seen() -> None:
    before = asyncio.all_tasks()
    task = asyncio.create_task(asyncio.sleep(60), name="planted")
    assert ["planted" in leak for leak in conftest.find_new_tasks(before)] == [True]
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert conftest.find_new_tasks(before) == []


def test_a_changed_environment_is_seen_and_set_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ECUMENE_KEPT", "as it was")
    monkeypatch.setenv("ECUMENE_TAKEN", "as it was")
    before = conftest.read_environment()
    os.environ["ECUMENE_PLANTED"] = "new"
    os.environ["ECUMENE_KEPT"] = "other"
    del os.environ["ECUMENE_TAKEN"]
    assert conftest.restore_environment(before) == ["ECUMENE_KEPT", "ECUMENE_PLANTED", "ECUMENE_TAKEN"]
    assert conftest.read_environment() == before
    assert conftest.restore_environment(before) == []


def test_what_does_not_end_fails_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conftest, "LEAK_GRACE_S", 0.02)
    with pytest.raises(pytest.fail.Exception, match="left running: thread planted"):
        conftest.wait_until_empty(lambda: ["thread planted"])
    conftest.wait_until_empty(list)


def test_seeds_differ_by_test_and_repeat(seed: int, request: pytest.FixtureRequest) -> None:
    assert 0 <= seed < 2**32
    assert request.getfixturevalue("seed") == seed
