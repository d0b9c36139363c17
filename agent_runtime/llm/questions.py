"""One question, as the gateway keeps it: what is said, and what it has cost so far."""

from __future__ import annotations

from typing import Protocol

from agent_runtime.llm.answers import Dialogue
from agent_runtime.llm.errors import ModelError
from agent_runtime.llm.requests import Answer, Completion, ModelRequest, SchemaMode
from agent_runtime.model.errors import BudgetExceededError


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
        """Of the call that is on its way or the last one; 0 where calls are not estimated."""

    def make_answer(self, now_s: float) -> Answer:
        """What its asker gets, once the dialogue has taken its last completion."""
        dialogue = self.dialogue
        completion = dialogue.completion
        assert completion is not None
        is_cached = self.attempts == 0
        return Answer(
            completion.text,
            dialogue.value,
            completion.finish_reason,
            self.attempts,
            self.prompt_tokens,
            self.completion_tokens,
            0.0 if is_cached else (now_s - self.started_s) * 1000.0,
            dialogue.mode,
            completion.tool_calls,
            dialogue.extract,
            self.microdollars,
            is_cached,
        )

    def charge(self, error: ModelError | BudgetExceededError, now_s: float) -> None:
        """Tells a failure what the question had cost."""
        error.attempts = self.attempts
        # A recorded failure brings what it had cost when it was recorded.
        error.prompt_tokens += self.prompt_tokens
        error.completion_tokens += self.completion_tokens
        error.microdollars += self.microdollars
        if isinstance(error, ModelError) and self.attempts:
            error.latency_ms = (now_s - self.started_s) * 1000.0

    def note_for_cache(self, completion: Completion) -> None:
        """Notes what the call of now got, which no cache had."""
        if self._fresh is None:
            self._fresh = []
        self._fresh.append((self.dialogue.request, self.dialogue.mode, completion))

    async def keep_in(self, cache: CompletionCache) -> None:
        """Keeps what was noted: the question is answered, so it was of use."""
        for request, mode, completion in self._fresh or ():
            await cache.keep(request, mode, completion)
