"""A child that does not outlive its parent."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import psutil
import pytest

CHILD = "from agent_runtime.death_signal import die_with; import sys, time; die_with(int(sys.argv[1])); "
CHILD += "print('tied', flush=True); time.sleep(60)"
PARENT = """
import os, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", sys.argv[1], str(os.getpid())], stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
sys.stdin.read()
"""

# As vllm starts its engines, and these what computes for them: by multiprocessing, its plugins called in each child.
ENGINE_OWNER = """
import multiprocessing, os, sys, time
from agent_runtime.death_signal import OWNER, die_with_owner

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


@pytest.mark.parametrize(
    "command",
    [[PARENT, CHILD], [ENGINE_OWNER, "", "0"], [ENGINE_OWNER, "", "1"]],
    ids=["command line", "engine", "engine's own child"],
)
def test_it_goes_with_its_parent(command: list[str]) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdin is not None and parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.kill()
        deadline_s = time.monotonic() + 5
        while psutil.pid_exists(child) and psutil.Process(child).status() != psutil.STATUS_ZOMBIE:
            assert time.monotonic() < deadline_s
            time.sleep(0.01)


def test_it_does_not_begin_when_the_parent_is_gone_already() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    done = subprocess.run([sys.executable, "-c", CHILD, str(gone.pid)], capture_output=True, timeout=30)
    assert (done.returncode, done.stdout) == (-9, b"")
    assert os.getpid() != gone.pid


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
