"""A child that does not outlive its parent, whatever it does meanwhile, and however the parent ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

GRACE_S = 0.5
TIED = "from ecumene.lifeline import die_with; import sys, time; die_with(int(sys.argv[1])); "
TIED += "print('tied', flush=True); time.sleep(60)"
HOLDING = f"""
import asyncio, os, subprocess, sys, threading, time
from ecumene.lifeline import hold_lifeline

what = sys.argv[1]


async def wait():
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    hold_lifeline(0, lambda: loop.call_soon_threadsafe(stop.set), grace_s={GRACE_S})
    print("holds", flush=True)
    if what == "blocks its loop":
        time.sleep(60)
    await stop.wait()
    if what == "waits for a thread":
        threading.Thread(target=time.sleep, args=(60,)).start()


if what == "has a family":
    os.setsid()
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], stdin=subprocess.DEVNULL)
    what = "blocks its loop"
asyncio.run(wait())
"""
PARENT = """
import os, subprocess, sys, time
end, code, *arguments = sys.argv[1:]
command = [sys.executable, "-c", code, *(arguments or [str(os.getpid())])]
child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
sys.stdin.readline()
if end == "raises":
    raise RuntimeError(end)
if end == "leaves at once":
    os._exit(3)
if end != "returns":
    time.sleep(60)
"""


def run_family(end: str, code: str, *arguments: str, stopped: bool = False) -> list[psutil.Process]:
    """A parent that starts a child and ends; the child, and what that started, as they are then."""
    command = [sys.executable, "-c", PARENT, end, code, *arguments]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as parent:
        assert parent.stdin is not None and parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        family = [child, *child.children()]
        if stopped:
            child.suspend()
        parent.stdin.write("go on\n")
        parent.stdin.flush()
        if end == "is killed":
            parent.kill()
        elif end == "is told to stop":
            parent.terminate()
    return family


def wait_gone(family: list[psutil.Process], within_s: float) -> None:
    """Until none of them runs; a zombie that nobody waits for has ended."""
    deadline_s = time.monotonic() + within_s
    while any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in family):
        assert time.monotonic() < deadline_s, family
        time.sleep(0.01)


@pytest.mark.parametrize("end", ["is killed", "is told to stop", "raises", "leaves at once", "returns"])
def test_it_stops_however_its_parent_ends(end: str) -> None:
    wait_gone(run_family(end, HOLDING, "waits"), 5)


@pytest.mark.parametrize("what", ["blocks its loop", "waits for a thread", "has a family"])
def test_it_is_ended_if_it_does_not_come_to_it(what: str) -> None:
    family = run_family("is killed", HOLDING, what)
    assert len(family) == (2 if what == "has a family" else 1)
    wait_gone(family, GRACE_S + 5)


def test_one_that_stands_still_is_ended_by_the_system() -> None:
    wait_gone(run_family("is killed", TIED, stopped=True), 5)


def test_it_does_not_begin_when_the_parent_is_gone_already() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    done = subprocess.run([sys.executable, "-c", TIED, str(gone.pid)], capture_output=True, timeout=30)
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, b"")
    assert os.getpid() != gone.pid
