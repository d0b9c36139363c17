"""A fake server in a loop of its own thread, for clients that block."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from ecumene import ClientSettings, sync

from tests.unit.ecumene.client.fake_server import FakeServer

QUICK = ClientSettings(backoff_first_ms=1, backoff_ms_max=5, reconnect_timeout_s=10, flush_timeout_s=0.2)


@pytest.fixture
def server() -> Iterator[FakeServer]:
    """A server on a free port."""
    started, stop = threading.Event(), asyncio.Event()
    holder: list[tuple[FakeServer, asyncio.AbstractEventLoop]] = []

    async def serve() -> None:
        server = FakeServer()
        await server.start()
        holder.append((server, asyncio.get_running_loop()))
        started.set()
        await stop.wait()
        await server.stop()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), name="fake server")
    thread.start()
    assert started.wait(10)
    server, loop = holder[0]
    yield server
    loop.call_soon_threadsafe(stop.set)
    thread.join(10)


@pytest.fixture
def world(server: FakeServer) -> Iterator[sync.World]:
    """An open world."""
    with sync.connect(server.address, client_id="tester", settings=QUICK) as world:
        yield world


def reached(condition: Callable[[], bool]) -> None:
    """Wait until something that other threads do has happened; fail after 10 s."""
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.001)


def waits_in_a_call(thread_id: int) -> bool:
    """Whether a thread is inside a blocking call of the SDK, waiting for its end."""
    frame = sys._current_frames().get(thread_id)
    names = []
    while frame is not None:
        names.append((frame.f_code.co_name, frame.f_globals.get("__name__", "")))
        frame = frame.f_back
    return names[0] == ("wait", "threading") and ("_wait", "ecumene.client.sync.loop_thread") in names
