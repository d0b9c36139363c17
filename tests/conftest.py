"""What holds for every test: printed seeds, and nothing left running.

Tasks are compared in the loop of an asyncio test; threads, child processes and the environment around every test.
Things that a module or session fixture starts before a test belong to that fixture, not the test.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import random
import threading
import time
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from pathlib import Path
from typing import Any, NoReturn

import hypothesis
import psutil
import pytest

from tests.forked_servers import is_template, keep_environment

LEAK_GRACE_S = 2.0
# An example that takes long says something about the machine, not about the code.
hypothesis.settings.register_profile("ecumene", deadline=None)
hypothesis.settings.load_profile("ecumene")
# Threads and processes of libraries, started once and shared by later tests.
FOREIGN_THREADS = (
    "ThreadPoolExecutor",
    "asyncio_",
    "grpc",
    "_channel_spin",
    "_poll_wrapper",
    "Thread-_serve",
    "pytest_timeout",
    "tqdm",
)
FOREIGN_PROCESSES = ("resource_tracker", "forkserver")
_TELLS_CHILDREN = Path("/proc/self/task", str(os.getpid()), "children").exists()


def pytest_configure(config: pytest.Config) -> None:
    """Choose the session's seed: that of the process that shares out the tests, ECUMENE_SEED, or a new one."""
    given = getattr(config, "workerinput", {}).get("ecumene_seed") or os.environ.get("ECUMENE_SEED")
    config.ecumene_seed = int(given or random.SystemRandom().randrange(1, 2**32))  # type: ignore[attr-defined]


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a process that takes a share of the tests (pytest-xdist) the seed."""
    node.workerinput["ecumene_seed"] = node.config.ecumene_seed


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """What a test has printed or logged may be no text: half a surrogate, which pytest-xdist cannot send."""
    report = yield
    report.sections = [(name, text.encode("utf-8", "backslashreplace").decode()) for name, text in report.sections]
    return report


def pytest_collection_finish() -> None:
    """Servers are forked in the environment that all tests find."""
    keep_environment()


def pytest_report_header(config: pytest.Config) -> str:
    """Print the seed, so that any failure can be run again."""
    return f"seed: {config.ecumene_seed} (repeat with ECUMENE_SEED={config.ecumene_seed})"  # type: ignore[attr-defined]


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """A seed of this test alone: the session's, varied by the test's name; shown if the test fails."""
    varied = random.Random(f"{request.config.ecumene_seed}/{request.node.nodeid}").randrange(2**32)  # type: ignore[attr-defined]
    print(f"seed of this test: {varied}")
    return varied


@pytest.fixture(scope="session")
def missing_toolchain() -> Callable[[str], NoReturn]:
    """Call it with what is missing: a visible skip in the default tests, a failure in the long ones."""

    def end_test(reason: str) -> NoReturn:
        if os.environ.get("ECUMENE_TEST_LONG"):
            pytest.fail(f"needed by the long tests: {reason}")
        pytest.skip(reason)

    return end_test


@pytest.fixture(autouse=True)
def nothing_left_running(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that leaves a thread, a child process, (if it is async) a task or a changed environment behind."""
    before_environment = read_environment()
    before_threads = set(threading.enumerate())
    before_processes = set(list_children())
    if inspect.iscoroutinefunction(getattr(request, "function", None)):
        request.getfixturevalue("no_task_left")
    yield
    wait_until_empty(lambda: find_new_threads(before_threads) + find_new_processes(before_processes))
    if changed := restore_environment(before_environment):
        pytest.fail(f"changed in the environment of all later tests: {', '.join(changed)}")


@pytest.fixture
async def no_task_left() -> AsyncIterator[None]:
    """Fail an async test whose loop still has tasks after the test and its fixtures ended."""
    before = asyncio.all_tasks()
    yield
    deadline = time.monotonic() + LEAK_GRACE_S
    while leaked := find_new_tasks(before):
        if time.monotonic() > deadline:
            pytest.fail(f"tasks left running: {leaked}")
        await asyncio.sleep(0.01)


def find_new_tasks(before: set[asyncio.Task[object]]) -> list[str]:
    """Tasks of this loop that are neither done, nor the caller, nor in `before`."""
    current = asyncio.current_task()
    return [repr(task) for task in asyncio.all_tasks() - before if task is not current and not task.done()]


def wait_until_empty(find_leaks: Callable[[], list[str]]) -> None:
    """Give what is stopping a moment, then fail with the names of what still runs."""
    deadline = time.monotonic() + LEAK_GRACE_S
    while leaked := find_leaks():
        if time.monotonic() > deadline:
            pytest.fail(f"left running: {', '.join(leaked)}")
        time.sleep(0.01)


def read_environment() -> dict[str, str]:
    """The variables of this process but for the one that pytest itself keeps changing."""
    return {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}


def restore_environment(before: dict[str, str]) -> list[str]:
    """Set the environment back; returns the names of the variables that differed."""
    now = read_environment()
    changed = sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
    for name in changed:
        if name in before:
            os.environ[name] = before[name]
        else:
            del os.environ[name]
    return changed


def find_new_threads(before: set[threading.Thread]) -> list[str]:
    """Names of live threads that are not in `before` and not a library's."""
    return [
        f"thread {thread.name}"
        for thread in set(threading.enumerate()) - before
        if thread.is_alive() and not any(mark in thread.name for mark in FOREIGN_THREADS)
    ]


def find_new_processes(before: set[psutil.Process]) -> list[str]:
    """Command lines of children that are not in `before`; zombies count, nobody waited for them."""
    return [describe_process(child) for child in set(list_children()) - before if not is_foreign(child)]


def list_children() -> list[psutil.Process]:
    """All descendants of this process."""
    if not _TELLS_CHILDREN:
        return psutil.Process().children(recursive=True)
    found: list[psutil.Process] = []
    waiting = list_own_children(os.getpid())
    while waiting:
        pid = waiting.pop()
        waiting += list_own_children(pid)
        try:
            found.append(psutil.Process(pid))
        except psutil.NoSuchProcess:
            pass
    return found


def list_own_children(pid: int) -> list[int]:
    """Children of a process, as Linux lists them: a look at all processes of the machine costs a hundredfold."""
    found: list[int] = []
    for thread in Path("/proc", str(pid), "task").glob("*/children"):
        try:
            found += map(int, thread.read_text().split())
        except OSError:
            pass  # the thread is gone
    return found


def is_foreign(child: psutil.Process) -> bool:
    """Whether a child belongs to a library or to all tests, or is gone already."""
    try:
        return is_template(child.pid) or any(mark in " ".join(child.cmdline()) for mark in FOREIGN_PROCESSES)
    except psutil.NoSuchProcess:
        return not child.is_running()


def describe_process(child: psutil.Process) -> str:
    """A child as one word group for a failure message."""
    try:
        return f"process {child.pid} ({child.status()}: {' '.join(child.cmdline()) or child.name()})"
    except psutil.Error:
        return f"process {child.pid}"
