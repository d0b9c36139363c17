"""The loop behind blocking calls: interrupted waits, ends of programs, callbacks."""

from __future__ import annotations

import asyncio
import concurrent.futures
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
from ecumene import sync
from ecumene.client import ClosedError
from ecumene.client.sync import loop_thread
from ecumene.client.sync.loop_thread import join_loop

from tests.unit.ecumene.client.fake_server import FakeServer
from tests.unit.ecumene.client.sync.conftest import QUICK, reached, waits_in_a_call

ENDS = {
    "falling off the end": "",
    "an exit": "raise SystemExit(0)",
    "a watch unread and a write unawaited": (
        "watch = room.watch(); future = world.frames.submit_block('/', ['z'], [1.0])"
    ),
    "a thread that still reads, and is told": (
        "import threading\ndef read():\n    try: list(room.watch())\n    except sync.ClosedError: pass\n"
        "threading.Thread(target=read, daemon=True).start()"
    ),
    "names dropped": "del world, room",
}


def interrupt(wait: Callable[[], Any]) -> None:
    """Press Ctrl-C once the wait has begun."""
    main = threading.main_thread().ident
    assert main == threading.get_ident()

    def press() -> None:
        reached(lambda: waits_in_a_call(main))
        signal.pthread_kill(main, signal.SIGINT)

    helper = threading.Thread(target=press, name="ctrl-c")
    helper.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            wait()
    finally:
        helper.join(10)


def test_an_interrupt_ends_the_wait_and_leaves_the_connection_whole(server: FakeServer, world: sync.World) -> None:
    room = world.environment("/")
    server.answering = False
    interrupt(lambda: room.set("a", 1.0))
    server.answering = True
    assert room.set("b", 1.0).revision == 2
    assert [key for key, _ in server.log] == ["a", "b"]


def test_an_interrupted_watch_goes_on_where_it_stood(server: FakeServer, world: sync.World) -> None:
    room = world.environment("/")
    watch = room.watch()
    room.set("a", 1.0)
    assert next(watch).key == "a"
    interrupt(lambda: next(watch))
    room.set("b", 1.0)
    assert next(watch).key == "b"


class Late(concurrent.futures.Future[Any]):
    """Its waiter is interrupted as soon as the result is there."""

    def exception(self, timeout: float | None = None) -> BaseException | None:
        super().exception(timeout)
        vars(self).setdefault("interrupts", []).append(1)
        if len(vars(self)["interrupts"]) == 1:
            raise KeyboardInterrupt
        return super().exception()


def interrupt_late(
    patch: pytest.MonkeyPatch, wait: Callable[[], Any], ended: type[concurrent.futures.Future[Any]] = Late
) -> None:
    """Ctrl-C when what is waited for has come, and is not told yet."""
    begin = loop_thread._Call.__init__

    def begin_late(call: Any, *arguments: Any) -> None:
        begin(call, *arguments)
        call.ended = ended()

    with patch.context() as late:
        late.setattr(loop_thread._Call, "__init__", begin_late)
        with pytest.raises(KeyboardInterrupt):
            wait()


def test_what_came_with_an_interrupt_is_the_next_item(
    server: FakeServer, world: sync.World, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = world.environment("/")
    watch = room.watch(from_revision=1)
    for number in range(4):
        room.set("a", float(number))
    assert next(watch).value == 0.0
    interrupt_late(monkeypatch, lambda: [next(watch) for _ in range(4)])
    batches = world.watch_frames(from_revision=1)
    interrupt_late(monkeypatch, lambda: next(batches))
    interrupt_late(monkeypatch, lambda: next(batches))
    seen: list[float] = []
    while len(seen) < 4:
        seen += next(batches).values
    assert seen == [0.0, 1.0, 2.0, 3.0]


def test_a_block_whose_beginning_was_interrupted_is_left(
    server: FakeServer, world: sync.World, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = world.watch_frames(from_revision=1)
    interrupt_late(monkeypatch, watch.__enter__)
    reached(lambda: watch.statistics().is_ended)


class Unseen(concurrent.futures.Future[Any]):
    """Its waiter is interrupted in the moment before it begins to wait, which Python tells it when that wait ends."""

    def exception(self, timeout: float | None = None) -> BaseException | None:
        if "waits" in vars(self):
            return super().exception(timeout)
        vars(self)["waits"] = timeout
        assert timeout is not None, "it would wait for ever"
        try:
            return super().exception(timeout / 100)
        except concurrent.futures.TimeoutError:
            raise KeyboardInterrupt from None


def test_an_interrupt_just_before_a_wait_ends_it_too(
    server: FakeServer, world: sync.World, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = world.environment("/")
    server.answering = False
    interrupt_late(monkeypatch, lambda: room.set("a", 1.0), Unseen)
    server.answering = True
    assert room.set("b", 1.0).revision == 2


def test_a_call_that_takes_long_is_waited_for_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_thread, "WAIT_S_MAX", 0.001)
    user = object()
    loop = join_loop(user)
    try:
        assert loop.call(asyncio.sleep, 0.05, "done") == "done"
    finally:
        loop.close_user(user)


def test_an_interrupt_while_connecting_leaves_nothing_behind(server: FakeServer) -> None:
    server.is_silent = True
    interrupt(lambda: sync.connect(server.address, timeout_s=30, settings=QUICK))
    assert "ecumene sync" not in {thread.name for thread in threading.enumerate()}


@pytest.mark.parametrize("last_line", ENDS.values(), ids=ENDS.keys())
def test_a_program_that_closes_nothing_ends_quietly(server: FakeServer, last_line: str) -> None:
    program = (
        f"from ecumene import sync\nworld = sync.connect({server.address!r})\nroom = world.environment('/')\n"
        f"room.set('a', 1.0)\n{last_line}\n"
    )
    done = subprocess.run([sys.executable, "-X", "dev", "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    reached(lambda: bool(server.log))


def test_a_call_from_a_callback_is_refused_and_not_hung() -> None:
    user = object()
    loop = join_loop(user)
    try:
        with pytest.raises(RuntimeError, match="callbacks"):
            loop.call(loop.call, print)
    finally:
        loop.close_user(user)


def test_calls_in_the_last_moment_are_answered() -> None:
    for _ in range(200):
        user = object()
        loop = join_loop(user)
        outcomes: list[object] = []

        def ask(loop: Any = loop, outcomes: list[object] = outcomes) -> None:
            try:
                while True:
                    loop.call(int)
            except ClosedError as error:
                outcomes.append(error)

        threads = [threading.Thread(target=ask, name="asker") for _ in range(2)]
        for thread in threads:
            thread.start()
        loop.close_user(user)
        for thread in threads:
            thread.join(10)
        assert len(outcomes) == 2


def test_joining_and_leaving_from_many_threads_loses_no_loop() -> None:
    def come_and_go() -> None:
        for _ in range(100):
            user = object()
            loop = join_loop(user)
            assert loop.call(len, "four") == 4
            loop.close_user(user)

    threads = [threading.Thread(target=come_and_go, name="guest") for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert "ecumene sync" not in {thread.name for thread in threading.enumerate()}
