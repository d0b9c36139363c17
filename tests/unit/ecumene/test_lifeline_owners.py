"""Engines of models: children by multiprocessing that do not outlive the process that has them."""

from __future__ import annotations

import subprocess
import sys
import time

import psutil
import pytest

# As vllm starts its engines, and these what computes for them: by multiprocessing, its plugins called in each child.
ENGINE_OWNER = """
import multiprocessing, os, sys, time
from ecumene.lifeline import OWNER, die_with_owner

def live(generations):
    die_with_owner()
    if generations:
        multiply(generations - 1)
    print(os.getpid(), flush=True)
    time.sleep(60)

def multiply(generations):
    child = multiprocessing.get_context("fork").Process(target=live, args=(generations,))
    child.start()
    child.join()

os.environ[OWNER] = sys.argv[1] or str(os.getpid())
die_with_owner()
multiply(int(sys.argv[2]))
"""


@pytest.mark.parametrize("generations", ["0", "1"], ids=["engine", "engine's own child"])
def test_it_goes_with_its_parent(generations: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", ENGINE_OWNER, "", generations], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdin is not None and parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.kill()
        deadline_s = time.monotonic() + 5
        while psutil.pid_exists(child) and psutil.Process(child).status() != psutil.STATUS_ZOMBIE:
            assert time.monotonic() < deadline_s
            time.sleep(0.01)


def test_children_of_others_are_left_alone() -> None:
    """A variable that was inherited from a process further up names nobody's parent."""
    with subprocess.Popen(
        [sys.executable, "-c", ENGINE_OWNER, "1", "0"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
        parent.wait()
        time.sleep(0.2)  # the signal would come with the parent's end
        assert child.is_running() and child.status() != psutil.STATUS_ZOMBIE
        child.kill()
