"""The writer commits what is queued, and after one failure nothing at all."""

import queue
import threading
from collections.abc import Callable
from typing import Any

from env_server.storage.groups import Group
from env_server.storage.writer import COMMIT_BYTES_MAX, Writer

WAIT_S = 30.0


def make_group(number: int, size_bytes: int = 1) -> Group:
    return Group(number, number, 0, 0, b"x" * size_bytes, None)


class Desk:
    """Where the reports go."""

    def __init__(self) -> None:
        self.reports: queue.Queue[tuple[str, Any]] = queue.Queue()

    def make_writer(self, commit: Callable[[list[Group]], None]) -> Writer:
        return Writer(
            "test",
            commit,
            lambda call, argument: call(argument),
            lambda number: self.reports.put(("durable", number)),
            lambda error: self.reports.put(("fatal", error)),
        )


def test_queued_groups_share_a_commit() -> None:
    desk = Desk()
    first_runs, may_end = threading.Event(), threading.Event()
    commits: list[list[int]] = []

    def commit(groups: list[Group]) -> None:
        commits.append([group.number for group in groups])
        first_runs.set()
        assert may_end.wait(WAIT_S)

    writer = desk.make_writer(commit)
    writer.put(make_group(1))
    assert first_runs.wait(WAIT_S)
    for number in (2, 3):
        writer.put(make_group(number))
    writer.put(make_group(4, COMMIT_BYTES_MAX))
    writer.put(make_group(5))
    may_end.set()
    writer.stop()
    assert commits == [[1], [2, 3, 4], [5]]
    assert list(desk.reports.queue) == [("durable", 1), ("durable", 4), ("durable", 5)]


def test_a_failure_is_reported_once_and_ends_it() -> None:
    desk = Desk()
    error = OSError(5, "Input/output error")
    commits: list[int] = []

    def commit(groups: list[Group]) -> None:
        commits.append(groups[0].number)
        if groups[0].number == 2:
            raise error

    writer = desk.make_writer(commit)
    writer.put(make_group(1))
    assert desk.reports.get(timeout=WAIT_S) == ("durable", 1)
    writer.put(make_group(2))
    assert desk.reports.get(timeout=WAIT_S) == ("fatal", error)
    writer.put(make_group(3))
    writer.stop()
    assert commits == [1, 2]
    assert desk.reports.empty()


def test_a_closed_loop_does_not_raise_in_the_thread() -> None:
    def refuse(call: object, argument: object) -> None:
        raise RuntimeError("Event loop is closed")

    writer = Writer("test", lambda groups: None, refuse, lambda number: None, lambda error: None)
    writer.put(make_group(1))
    writer.stop()
