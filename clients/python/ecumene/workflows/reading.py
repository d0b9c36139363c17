"""Waiting for results: in a loop, and in blocking code."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable
from typing import Any

from ecumene.workflows.calls import UNREAD, Call
from ecumene.workflows.errors import ResultLostError, to_error
from ecumene.workflows.messages import read_outcome
from ecumene.workflows.runs import running
from ecumene.workflows.values import Unpacking


def read_blocking(call: Call, timeout_s: float | None) -> Any:
    """The value of a call, waiting for it in this thread.

    Raises:
        TimeoutError: not within `timeout_s`.
        TypeError: a loop runs in this thread, and the value is not there.
        WorkflowError: there is no result.
    """
    if not call.is_done or _is_elsewhere(call):
        if _runs_loop():
            raise TypeError(f"{call} is not there yet, and a loop runs in this thread: await its placeholder")
        _wait_blocking(call, timeout_s)
    if _is_elsewhere(call):
        _check_open(call)
        fetching = asyncio.run_coroutine_threadsafe(_fetch(call), call.caller.loop)
        fetching.result(timeout_s)
    return _value_of(call)


async def wait(call: Call) -> Any:
    """The value of a call, waiting for it in this loop.

    Raises:
        WorkflowError: there is no result.
    """
    if not call.is_done:
        run = running.get()
        token = run.waits.begin(run, call) if run is not None else None
        future = _CallFuture(call)
        try:
            if call.caller.add_waiter(call, future.wake):
                await future.wait()
        finally:
            if run is not None:
                run.waits.end(run, token)
    if _is_elsewhere(call):
        _check_open(call)
        await await_in(call.caller.loop, _fetch(call))
    return _value_of(call)


async def text_of(call: Call) -> str:
    """The outcome of a call as it travels, waiting for it in its caller's loop."""
    if not call.is_done:
        future = _CallFuture(call)
        if call.caller.add_waiter(call, future.wake):
            await future.wait()
    if call.text is None:
        await _fetch(call)
    assert call.text is not None
    return call.text


async def await_in(loop: asyncio.AbstractEventLoop, work: Any) -> Any:
    """Await a coroutine in another loop, or in this one."""
    if asyncio.get_running_loop() is loop:
        return await work
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))


class _CallFuture:
    """Lets a loop wait for a call that ends in its caller's loop, which may be another."""

    __slots__ = ("_future", "_is_same", "_loop")

    def __init__(self, call: Call) -> None:
        self._loop = asyncio.get_running_loop()
        self._is_same = self._loop is call.caller.loop
        self._future: asyncio.Future[None] = self._loop.create_future()

    def wake(self) -> None:
        """The call is done; in its caller's loop."""
        if self._is_same:
            self._set()
            return
        try:
            self._loop.call_soon_threadsafe(self._set)
        except RuntimeError:
            pass  # that loop has ended, and whoever waited in it

    def wait(self) -> Awaitable[None]:
        """Until then."""
        return self._future

    def _set(self) -> None:
        if not self._future.done():
            self._future.set_result(None)


def _wait_blocking(call: Call, timeout_s: float | None) -> None:
    run = running.get()
    token = run.waits.begin(run, call) if run is not None else None
    ended = threading.Event()
    try:
        if call.caller.add_waiter(call, ended.set) and not ended.wait(timeout_s):
            raise TimeoutError(f"{call} is not there after {timeout_s} s; it goes on")
    finally:
        if run is not None:
            run.waits.end(run, token)


async def _fetch(call: Call) -> None:
    """Bring a large result here, in its caller's loop."""
    text = await call.caller.fetch(call)
    if _is_elsewhere(call):
        call.text = text


def _check_open(call: Call) -> None:
    if call.caller.has_ended:
        raise ResultLostError(f"the result of {call} was not fetched before its flow ended")


def _is_elsewhere(call: Call) -> bool:
    """Whether it has ended with a result that has to be fetched."""
    return call.is_done and call.text is None and call.value is UNREAD


def _value_of(call: Call) -> Any:
    value = call.value
    if value is UNREAD:
        text = call.text
        assert text is not None
        outcome = read_outcome(text)
        if outcome.failure is not None:
            raise to_error(outcome.failure)
        value = call.value = Unpacking(call.caller.known.find).unpack(outcome.tree)
    return value


def _runs_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
