"""An engine of vllm goes with the process that has it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import NoReturn

import psutil
import pytest

from tests.foreign.vllm.builds import find_build
from tests.foreign.vllm.engine_processes import find_engines
from tests.foreign.vllm.models import TINY

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]


def test_an_engine_ends_with_the_process_that_has_it(missing_toolchain: Callable[[str], NoReturn]) -> None:
    """However that ends: here by SIGKILL. So does what computes for the engine."""
    build = find_build(missing_toolchain)
    with subprocess.Popen(
        [sys.executable, "-m", "tests.foreign.vllm.engine_owner", build.model(TINY)],
        stdout=subprocess.PIPE,
        text=True,
    ) as owner:
        assert owner.stdout is not None
        while (line := owner.stdout.readline()).strip() != "ready":
            assert line, "the owner ended before it was ready"
        assert len(find_engines(owner.pid)) == 1
        processes = psutil.Process(owner.pid).children(recursive=True)
        owner.kill()
    _, left = psutil.wait_procs(processes, timeout=10)
    # Nobody may wait for what has lost its parent: that is a zombie then.
    alive = [process for process in left if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]
    for process in alive:
        process.kill()
    assert not alive
