"""Whose run it is."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest
from ecumene.sim.runs.directory import LOCK_NAME, RunActiveError, RunLock


async def test_services_that_live_on_are_waited_for_and_that_is_told_once(tmp_path: Path) -> None:
    told: list[str] = []
    left = os.open(tmp_path / LOCK_NAME, os.O_RDWR | os.O_CREAT)
    fcntl.flock(left, fcntl.LOCK_EX)
    with pytest.raises(RunActiveError, match="its services have not ended yet"):
        async with RunLock(tmp_path, left_over_s=0.3, on_wait=lambda: told.append("waits")):
            pytest.fail("it is somebody else's")
    assert told == ["waits"]
    os.close(left)
    async with RunLock(tmp_path, on_wait=lambda: told.append("waits")):
        assert told == ["waits"]


async def test_a_run_that_somebody_conducts_is_refused_at_once(tmp_path: Path) -> None:
    told: list[str] = []
    held = os.open(tmp_path / LOCK_NAME, os.O_RDWR | os.O_CREAT)
    os.write(held, f"{os.getppid()}\n".encode())
    fcntl.flock(held, fcntl.LOCK_EX)
    with pytest.raises(RunActiveError, match=f"process {os.getppid()} conducts it"):
        async with RunLock(tmp_path, on_wait=lambda: told.append("waits")):
            pytest.fail("it is somebody else's")
    assert told == []
    os.close(held)
