"""Running one method: arguments out of trees, the method in its place, and what came of it back into a tree."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any

from ecumene.workflows.actors import find_method, is_coroutine_method
from ecumene.workflows.calls import MAKE
from ecumene.workflows.errors import CallRefusedError, CallTimeoutError, Failure, Origin, describe_exception
from ecumene.workflows.limits import VALUE_BYTES_MAX
from ecumene.workflows.messages import Message, read_outcome, write_failure, write_ok
from ecumene.workflows.reading import text_of
from ecumene.workflows.runs import Run, Waits, running
from ecumene.workflows.threads import Threads
from ecumene.workflows.values import Packing, Tree, Unpacking, fill_refs

if TYPE_CHECKING:
    from ecumene.client import World, Writes
    from ecumene.workflows.callers import Caller
    from ecumene.workflows.calls import Call
    from ecumene.workflows.cells import ActorCell, Job
    from ecumene.workflows.placeholders import Placeholder

CANCEL_GRACE_S = 1.0
FindClass = Callable[[str], type]
"""The class of a name; raises CallRefusedError."""


class MethodResult:
    """What a method came to."""

    __slots__ = ("effects", "late", "message", "origin", "placeholders", "text", "tree")

    def __init__(self, message: Message, origin: Origin) -> None:
        self.message = message
        self.origin = origin
        self.text = ""
        """Its outcome; "" as long as that has placeholders in it."""
        self.tree: Tree = None
        self.placeholders: list[Placeholder] = []
        self.effects: Writes | None = None
        self.late: asyncio.Future[Any] | None = None
        """What went on beyond its time."""

    def fail(self, error: BaseException) -> MethodResult:
        """It has failed; what it staged has no effect."""
        self.text = write_failure(describe_exception(error, self.origin))
        self.placeholders, self.effects = [], None
        return self

    def succeed(self, tree: Tree) -> None:
        """It has returned what has this tree."""
        self.text = write_ok(tree)
        if len(self.text) > VALUE_BYTES_MAX:
            problem = f"its result takes {len(self.text)} bytes; VALUE_BYTES_MAX is {VALUE_BYTES_MAX}"
            self.text = write_failure(Failure("VALUE_TOO_LARGE", problem, origin=self.origin))
            self.effects = None

    async def resolve(self, wait: Callable[[Call], Awaitable[str]] = text_of) -> str:
        """The outcome, with values in the places of placeholders; a failure if that cannot be had."""
        try:
            trees = []
            for placeholder in self.placeholders:
                outcome = read_outcome(await wait(placeholder._call))
                if outcome.failure is not None:
                    self.effects, self.placeholders = None, []
                    self.text = write_failure(outcome.failure.passed_through(str(self.message)))
                    return self.text
                trees.append(outcome.tree)
            if self.placeholders:
                self.succeed(fill_refs(self.tree, trees))
                self.placeholders = []
        except Exception as error:  # noqa: BLE001 - the edge: whatever was returned, somebody waits for the outcome
            self.fail(error)
        return self.text


class MethodRunner:
    """Runs methods of actors of one stage."""

    def __init__(self, host: str, threads: Threads, waits: Waits, find_class: FindClass) -> None:
        self._host = host
        self._find_class = find_class
        self._threads = threads
        self._waits = waits

    async def run(self, cell: ActorCell, job: Job, caller: Caller, world: World | None) -> MethodResult:
        """Run a job's method once. Whatever it raises is part of what it came to."""
        message = job.message
        result = MethodResult(message, Origin(message.actor, message.class_name, message.method, self._host))
        run = Run(message.actor, cell.instance, caller, world, self._waits)
        token = running.set(run)
        try:
            function, args, kwargs, is_coroutine = self._prepare(cell, job, caller)
            if is_coroutine:
                value = await _run_method(function(*args, **kwargs), result)
            else:
                run.is_blocking = True
                value = await self._run_in_thread(run, lambda: function(*args, **kwargs), result)
            if message.do == MAKE:
                cell.instance, value = value, None
            result.effects = run.take_effects()
            packing = Packing(caller.known.describe)
            result.tree = packing.pack(value)
            result.placeholders = packing.placeholders
            if not result.placeholders:
                result.succeed(result.tree)
            elif result.effects is not None:
                # The actor goes on only when the effects are sent: it waits, and may wait for itself.
                waiting = Run(message.actor, None, caller, world, self._waits)
                await result.resolve(functools.partial(_wait_as, waiting))
        except BaseException as error:  # the edge: a call fails alone, whatever it raised
            if not _is_of_its_code(cell, error):
                raise
            result.fail(error)
        finally:
            run.is_over = True
            running.reset(token)
        if message.do == MAKE and cell.instance is None:
            cell.failure = read_outcome(result.text).failure
        return result

    def _prepare(
        self, cell: ActorCell, job: Job, caller: Caller
    ) -> tuple[Callable[..., Any], list[Any], dict[str, Any], bool]:
        message = job.message
        args, kwargs = _unpack(Unpacking(caller.known.find, job.refs).unpack(message.inner))
        if message.do == MAKE:
            # In a thread, with the constructor: importing a module may take long.
            return lambda *args, **kwargs: self._find_class(message.class_name)(*args, **kwargs), args, kwargs, False
        cls = type(cell.instance)
        try:
            find_method(cls, message.method)
        except AttributeError as error:
            raise CallRefusedError(str(error)) from error
        return getattr(cell.instance, message.method), args, kwargs, is_coroutine_method(cls, message.method)

    async def _run_in_thread(self, run: Run, function: Callable[[], Any], result: MethodResult) -> Any:
        timeout_s = result.message.timeout_s
        if timeout_s is None:
            return await (await self._threads.start(run, function))
        # The wait for a slot counts: those that have them may hang.
        loop = asyncio.get_running_loop()
        until_s = loop.time() + timeout_s
        future = await _run_in_time(self._threads.start(run, function), timeout_s)
        done, _ = await asyncio.wait({future}, timeout=max(0.0, until_s - loop.time()))
        if not done:
            result.late = future
            self._threads.leave(run, future)
            raise _tell_late(timeout_s)
        return await future


def _is_of_its_code(cell: ActorCell, error: BaseException) -> bool:
    """Whether a method has raised it; else its actor is to end. A method that cancelled its own task goes on."""
    if isinstance(error, asyncio.CancelledError) and not cell.is_gone:
        task = asyncio.current_task()
        while task is not None and task.cancelling():
            task.uncancel()
        return True
    return not isinstance(error, asyncio.CancelledError | GeneratorExit)


async def _wait_as(run: Run, call: Call) -> str:
    """The outcome of a call as it travels; meanwhile it is known that the actor waits for it."""
    token = run.waits.begin(run, call)
    try:
        return await text_of(call)
    finally:
        run.waits.end(run, token)


def _unpack(inner: list[Any]) -> tuple[list[Any], dict[str, Any]]:
    return inner[0], inner[1] if len(inner) > 1 else {}


async def _run_method(method: Coroutine[Any, Any, Any], result: MethodResult) -> Any:
    """What a coroutine method returns. One that takes no notice of its time goes on, as a function does."""
    timeout_s = result.message.timeout_s
    if timeout_s is None:
        return await method
    task = asyncio.get_running_loop().create_task(method, name=f"method of {result.message}")
    try:
        await asyncio.wait({task}, timeout=timeout_s)
        is_late = not task.done()
        if is_late:
            task.cancel()
            await asyncio.wait({task}, timeout=CANCEL_GRACE_S)
    except asyncio.CancelledError:
        task.cancel()
        raise
    if not task.done():
        result.late = task
    elif not (is_late and task.cancelled()):
        return task.result()
    raise _tell_late(timeout_s)


async def _run_in_time(method: Awaitable[Any], timeout_s: float | None) -> Any:
    if timeout_s is None:
        return await method
    try:
        async with asyncio.timeout(timeout_s) as bound:
            return await method
    except TimeoutError as error:
        if bound.expired():
            raise _tell_late(timeout_s) from error
        raise


def _tell_late(timeout_s: float) -> CallTimeoutError:
    return CallTimeoutError(f"it took longer than its timeout_s, {timeout_s}")
