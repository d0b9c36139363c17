"""The processes of vllm's engines, to be killed by their id."""

from __future__ import annotations

import multiprocessing

import psutil

MARK = "EngineCore"


def find_engines(parent: int | None = None) -> set[psutil.Process]:
    """Engines below a process; None = below this one."""
    found = set()
    for child in psutil.Process(parent).children(recursive=True):
        try:
            told = f"{child.name()} {' '.join(child.cmdline())}"
        except psutil.NoSuchProcess:
            continue
        if MARK in told and child.status() != psutil.STATUS_ZOMBIE:
            found.add(child)
    return found


def kill(process: psutil.Process) -> None:
    """SIGKILL; returns when it is gone."""
    process.kill()
    psutil.wait_procs([process], timeout=10)


def wait_ended() -> None:
    """Returns when the engines of this process that were ended are gone: vllm ends them and does not wait."""
    for child in multiprocessing.active_children():
        child.join(30)
