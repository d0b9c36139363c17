"""One event loop on a thread of its own, for programs that have none or whose own must not be touched.

It is shared by all connections of the process: the first one starts it, the last one that is closed ends it. The
last may be dropped by the garbage collector in any thread, this one included, so that nobody may be made to join it
there; that, and waits that an interrupt ends, is what ready-made portals do not offer.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import inspect
import threading
from collections.abc import Awaitable, Callable
from typing import Any

from ecumene.client.errors import ClosedError

Close = Callable[[], Awaitable[None]]
PutBack = Callable[[Any], None]

END_S_MAX = 5.0
"""For what is cancelled when the last user has left; what takes no notice of it ends with the loop, wherever it is."""
WAIT_S_MAX = 1.0
"""Of one wait, then the next one begins: Python does not see a signal that came in the last moment before a wait."""


class LoopThread:
    """A loop that runs while it has users; `join_loop` gets it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        """Held for moments, never while anything is made that the garbage collector may have to make room for."""
        self._takes_calls = True
        self._users: dict[object, Close | None] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._started: concurrent.futures.Future[asyncio.AbstractEventLoop] = concurrent.futures.Future()
        self._no_users = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="ecumene sync", daemon=True)
        self._thread.start()
        self._loop = self._started.result()

    @property
    def is_running(self) -> bool:
        """Whether it takes calls. In a forked child it does not: threads stay with the parent."""
        return self._takes_calls and self._thread.is_alive()

    def call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a function in the loop, await what it returns, and give that to the calling thread.

        An interrupt of the wait (Ctrl-C) cancels what is awaited, lets it end, and goes on to the caller.

        Raises:
            ClosedError: the loop has ended.
            RuntimeError: the caller is the loop itself, which would wait for itself.
        """
        return self._wait(_Call(function, args, kwargs, None))

    def call_or_put_back(self, put_back: PutBack, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """The same; `put_back` is called in the loop with a result that an interrupt keeps from the caller.

        It has been called before whatever the caller has done in the loop next.
        """
        return self._wait(_Call(function, args, kwargs, put_back))

    def try_add_user(self, user: object) -> bool:
        """Count one more user; False when the last one has left."""
        with self._lock:
            if self.is_running:
                self._users[user] = None
            return self.is_running

    def set_close(self, user: object, close: Close) -> None:
        """How to close what a user opened."""
        self._users[user] = close

    def close_user(self, user: object) -> None:
        """Close what a user left open, and wait; the last user ends the loop. Without effect the second time."""
        try:
            self.call(self._close, user)
        except ClosedError:
            if self.is_running:
                raise
        if not self._takes_calls:
            self._thread.join()

    def drop_user(self, user: object) -> None:
        """`close_user` without waiting, from any thread and from the garbage collector."""
        self._try_post(self._start_closing, user)

    def close_all(self) -> None:
        """Close whatever is open."""
        for user in list(self._users):
            self.close_user(user)

    def keep(self, task: asyncio.Task[None]) -> None:
        """Hold a task of the loop's own until it is done."""
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def _wait(self, call: _Call) -> Any:
        if threading.get_ident() == self._thread.ident:
            raise RuntimeError("blocking calls are not for callbacks: this is the thread that would have to answer")
        self._post(call.start)
        try:
            _wait_ended(call.ended)
        except BaseException:
            self._try_post(call.give_up)
            _wait_ended(call.ended)
            raise
        return call.ended.result()

    def _start_closing(self, user: object) -> None:
        self.keep(asyncio.get_running_loop().create_task(self._close(user), name="ecumene sync close"))

    async def _close(self, user: object) -> None:
        close = self._users.get(user)
        try:
            if close is not None:
                await close()
        finally:
            with self._lock:
                self._users.pop(user, None)
                if not self._users:
                    self._takes_calls = False
                    self._no_users.set()

    def _post(self, callback: Callable[[], None]) -> None:
        with self._lock:
            if not self.is_running:
                raise ClosedError
            self._loop.call_soon_threadsafe(callback)

    def _try_post(self, callback: Callable[..., object], *args: object) -> None:
        """Without the lock, which this very thread may hold; a loop that ended has nothing left to be told."""
        try:
            self._loop.call_soon_threadsafe(callback, *args)
        except RuntimeError:
            pass

    def _run(self) -> None:
        """As `asyncio.run`, which would wait for ever for a task that takes no notice of its end."""
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        try:
            loop.run_until_complete(self._serve())
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.run_until_complete(loop.shutdown_default_executor())
        finally:
            asyncio.set_event_loop(None)
            loop.close()

    async def _serve(self) -> None:
        self._started.set_result(asyncio.get_running_loop())
        await self._no_users.wait()
        # Calls that came in the last moment are begun, and cancelled: nobody waits for ever.
        await asyncio.sleep(0)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=END_S_MAX)


def join_loop(user: object) -> LoopThread:
    """The loop of this process with one more user, started if there is none; `close_user` or `drop_user` follows."""
    with _joining:
        loop = next(iter(_loops), None)
        if loop is None or not loop.try_add_user(user):
            _loops.clear()
            loop = LoopThread()
            loop.try_add_user(user)
            _loops.append(loop)
    return loop


def _wait_ended(ended: concurrent.futures.Future[Any]) -> None:
    """Until it is done, whatever its outcome is; an interrupt ends it within WAIT_S_MAX."""
    while True:
        try:
            ended.exception(WAIT_S_MAX)
        except concurrent.futures.TimeoutError:
            continue
        return


class _Call:
    """One call on its way through the loop."""

    def __init__(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], put_back: PutBack | None
    ) -> None:
        self.ended: concurrent.futures.Future[Any] = concurrent.futures.Future()
        self._function = function
        self._args = args
        self._kwargs = kwargs
        self._put_back = put_back
        self._is_given_up = False
        self._task: asyncio.Task[Any] | None = None

    def start(self) -> None:
        """Begin, in the loop."""
        name = f"ecumene sync {getattr(self._function, '__qualname__', self._function)}"
        self._task = asyncio.get_running_loop().create_task(self._run(), name=name)
        self._task.add_done_callback(self._end)

    def give_up(self) -> None:
        """The caller waits no more, in the loop."""
        self._is_given_up = True
        if self._task is None:
            return
        if self.ended.done():
            self._end_unheard(self._task)
        else:
            self._task.cancel()

    def _end(self, task: asyncio.Task[Any]) -> None:
        if self._is_given_up:
            self._end_unheard(task)
        _copy_outcome(task, self.ended)

    def _end_unheard(self, task: asyncio.Task[Any]) -> None:
        """Cancelling may have come too late."""
        if self._put_back is not None and not task.cancelled() and task.exception() is None:
            self._put_back(task.result())

    async def _run(self) -> Any:
        result = self._function(*self._args, **self._kwargs)
        if inspect.isawaitable(result) and not isinstance(result, asyncio.Future):
            result = await result
        if isinstance(result, asyncio.Future):
            handed_out: concurrent.futures.Future[Any] = concurrent.futures.Future()
            handed_out.set_running_or_notify_cancel()  # what was issued cannot be taken back
            result.add_done_callback(lambda future: _copy_outcome(future, handed_out))
            return handed_out
        return result


def _copy_outcome(source: asyncio.Future[Any], target: concurrent.futures.Future[Any]) -> None:
    if source.cancelled():
        target.set_exception(ClosedError())
    elif (error := source.exception()) is not None:
        target.set_exception(error)
    else:
        target.set_result(source.result())


_joining = threading.Lock()
_loops: list[LoopThread] = []
"""The one that runs, if any."""


@atexit.register
def _close_at_exit() -> None:
    for loop in _loops:
        loop.close_all()
