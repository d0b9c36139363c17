"""One question and its calls, as the gateway keeps them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from agent_runtime.llm.admission import Dispatch, Seat
from agent_runtime.llm.answers import Dialogue
from agent_runtime.llm.call_timers import CallTimer, CallTimers
from agent_runtime.llm.errors import ModelTimeoutError
from agent_runtime.llm.requests import Completion, ModelRequest, SchemaMode

if TYPE_CHECKING:
    from agent_runtime.llm.weighing import Weighing


class CompletionCache(Protocol):
    """Completions that were given before; see `records.cache`."""

    async def find(self, request: ModelRequest, mode: SchemaMode) -> Completion | None:
        """What an identical request got."""
        ...

    async def keep(self, request: ModelRequest, mode: SchemaMode, completion: Completion) -> None:
        """Keeps what a request got, for later ones."""
        ...

    async def aclose(self) -> None:
        """Ends its use."""
        ...


class Question:
    """What one `ask` says, and what it has cost so far."""

    __slots__ = (
        "_fresh",
        "attempts",
        "completion_tokens",
        "dialogue",
        "microdollars",
        "prompt_tokens",
        "prompt_tokens_by_rule",
        "started_s",
    )

    def __init__(self, dialogue: Dialogue) -> None:
        self.dialogue = dialogue
        self.started_s = 0.0
        self._fresh: list[tuple[ModelRequest, SchemaMode, Completion]] | None = None
        self.attempts = 0
        self.prompt_tokens = 0
        self.completion_tokens = 0
        self.microdollars = 0
        self.prompt_tokens_by_rule = 0
        """Of the call that is on its way or the last one; 0 where calls are not weighed."""

    def note_for_cache(self, completion: Completion) -> None:
        """Notes what the call of now got, which no cache had."""
        if self._fresh is None:
            self._fresh = []
        self._fresh.append((self.dialogue.request, self.dialogue.mode, completion))

    async def keep_in(self, cache: CompletionCache) -> None:
        """Keeps what was noted: the question is answered, so it was of use."""
        for request, mode, completion in self._fresh or ():
            await cache.keep(request, mode, completion)


class Call(CallTimer):
    """One call at an endpoint: a `with` around it, after which its seat is free and its cost is known."""

    __slots__ = ("_dispatch", "_question", "_seat", "_timeout_s", "_weighing", "completion", "request")

    def __init__(
        self,
        timers: CallTimers,
        timeout_s: float,
        dispatch: Dispatch,
        weighing: Weighing,
        question: Question,
        seat: Seat,
        request: ModelRequest,
    ) -> None:
        super().__init__(timers)
        self._timeout_s = timeout_s
        self._dispatch = dispatch
        self._weighing = weighing
        self._question = question
        self._seat = seat
        self.request = request
        self.completion: Completion

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        try:
            super().__exit__(kind, error, trace)
        except TimeoutError as over:
            error = over
        if isinstance(error, TimeoutError):
            error = ModelTimeoutError(self.request.model, self._timeout_s)
            is_timeout = True
        else:
            is_timeout = False
        if error is None:
            load = self._weighing.note_completion(self._question, self.completion)
        else:
            load = self._weighing.note_failure(self._question, error)
        self._dispatch.leave(self._seat, load, error)
        if is_timeout:
            assert error is not None
            raise error from None
