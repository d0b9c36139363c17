"""Behaviour operations from start to return: driven by hand on the engine's clock, committed as one revision.

An operation is a coroutine that awaits nothing but its context. Whoever drives it sends it on when its sleep is over,
so it needs no task, and a simulated clock makes a run repeatable.
"""

import json
import logging
import secrets
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from env_server.behaviours.behaviour import Callee
from env_server.behaviours.context import CallOperation, Context, Sleep
from env_server.model.errors import DeadlineExceeded, Executed, InternalError, Reason, WorldError
from env_server.model.frames import Invoked, Outcome
from env_server.model.operations import Write
from env_server.model.ports import Clock, Handle
from env_server.model.values import Json

log = logging.getLogger(__name__)

Commit = Callable[[tuple[Write, ...], Json], bool]
Nest = Callable[[CallOperation, Callable[[Outcome], None]], Callable[[], None]]
"""Runs another operation and hands its outcome on; returns what ends it early. May raise a WorldError instead."""


class Invocation:
    """One running operation. `ended` is called once with its outcome, perhaps before `start` returns."""

    __slots__ = (
        "_clock",
        "_commit",
        "_companions",
        "_context",
        "_coroutine",
        "_ended",
        "_nest",
        "_nested",
        "_operation",
        "_timeout",
    )

    def __init__(
        self,
        operation: Callee,
        context: Context,
        companions: tuple[Write, ...],
        clock: Clock,
        commit: Commit,
        ended: Callable[[Outcome], None],
        nest: Nest,
    ) -> None:
        self._operation = operation
        self._context = context
        self._companions = companions
        self._clock = clock
        self._commit = commit
        self._ended = ended
        self._nest = nest
        #: Ends the operation that this one awaits.
        self._nested: Callable[[], None] | None = None
        self._coroutine: Coroutine[object, Any, Any] | None = None
        self._timeout: Handle | None = None

    def start(self, arguments: dict[str, Any], timeout_s: float) -> None:
        """Runs the operation up to its first sleep, or to its end."""
        self._coroutine = self._operation.method(self._context, **arguments)  # type: ignore[assignment]
        self._step()
        if self._coroutine is not None:
            self._timeout = self._clock.call_later(timeout_s, self._time_out)

    def try_cancel(self) -> bool:
        """Ends the operation without an effect and without a word; declines when it has ended."""
        coroutine, self._coroutine = self._coroutine, None
        if coroutine is None:
            return False
        if self._timeout is not None:
            self._timeout.cancel()
        self._unwind(coroutine)
        return True

    def _step(self, value: Any = None, error: WorldError | None = None) -> None:
        coroutine = self._coroutine
        if coroutine is None:  # it ended by its deadline while it slept
            return
        self._nested = None
        try:
            instruction = coroutine.send(value) if error is None else coroutine.throw(error.with_traceback(None))
        except StopIteration as returned:
            self._end(self._returned(returned.value))
        except WorldError as error:
            self._end(error if _can_be_told(error) else self._defect(error))
        except BaseException as error:  # noqa: BLE001 - the edge of foreign code: nothing of it may end the server
            self._end(self._defect(error))
        else:
            if isinstance(instruction, Sleep):
                self._clock.call_later(instruction.seconds, self._step)
            elif isinstance(instruction, CallOperation):
                self._call(instruction)
            else:
                self._close(coroutine)
                self._end(self._defect(TypeError("an operation may await only its context")))

    def _call(self, asked: CallOperation) -> None:
        """Goes on in a later loop step, so that a chain of calls is no chain of stack frames."""
        try:
            self._nested = self._nest(asked, self._resume)
        except WorldError as error:
            self._resume(error)
        except Exception as error:  # noqa: BLE001 - the arguments are no JSON
            self._resume(self._defect(error))

    def _resume(self, outcome: Outcome) -> None:
        if isinstance(outcome, WorldError):
            self._clock.call_soon(partial(self._step, None, outcome))
        else:
            assert isinstance(outcome, Invoked)
            self._clock.call_soon(partial(self._step, json.loads(outcome.result.text)))

    def _returned(self, value: Any) -> Outcome:
        try:
            result = Json.of(value)
            staged = (*self._context.staged, *self._companions)
            changed = self._commit(staged, result)
            return Invoked(0, result, changed)
        except WorldError as error:
            return error
        except Exception as error:  # noqa: BLE001 - the result is no JSON, or a staged value no value
            return self._defect(error)

    def _time_out(self) -> None:
        coroutine, self._coroutine = self._coroutine, None
        if coroutine is not None:
            self._unwind(coroutine)
            self._ended(DeadlineExceeded(f"operation {self._operation.name} took too long", Executed.NO))

    def _unwind(self, coroutine: Coroutine[object, Any, Any]) -> None:
        nested, self._nested = self._nested, None
        if nested is not None:
            nested()
        self._close(coroutine)

    def _close(self, coroutine: Coroutine[object, Any, Any]) -> None:
        """Unwinds it; what its cleaning up does wrong must not keep its keys from being freed."""
        try:
            coroutine.close()
        except BaseException as error:  # noqa: BLE001 - foreign code
            self._defect(error)

    def _end(self, outcome: Outcome) -> None:
        self._coroutine = None
        if self._timeout is not None:
            self._timeout.cancel()
        self._ended(outcome)

    def _defect(self, error: BaseException) -> InternalError:
        return defect_of(self._operation, error)


def _can_be_told(error: WorldError) -> bool:
    """Whether what an operation raised can be encoded: it is kept in the log for repetitions."""
    texts = (error.message, *error.metadata, *error.metadata.values())
    return isinstance(error.reason, Reason) and all(isinstance(text, str) for text in texts)


def defect_of(operation: Callee, error: BaseException) -> InternalError:
    """What the caller of an operation with a defect sees; the rest is in our log."""
    incident = secrets.token_hex(8)
    log.error("incident %s: operation %s", incident, operation.name, exc_info=error)
    return InternalError(incident)
