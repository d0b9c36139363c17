"""How a turn asks its model: identity, budget, cost and record of each question are taken care of."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel
from pydantic_core import to_json

from agent_runtime.llm import Answer, Message, ModelError, ModelRequest, ModelSetupError, Tool
from agent_runtime.llm.answers import find_first_request
from agent_runtime.llm.records import describe_request, hash_request
from agent_runtime.llm.settings import ModelSettings
from agent_runtime.model.draws import Draw
from agent_runtime.model.errors import BudgetExceededError

if TYPE_CHECKING:
    from agent_runtime.gateways.models import Model
    from agent_runtime.turns.part_context import PartContext
    from agent_runtime.turns.turn import Turn

SEED_STREAM = 32
Messages = Sequence[Message] | Callable[[], Sequence[Message]]


class TurnModel:
    """The model of one agent, within one turn."""

    __slots__ = ("_context", "_turn")

    def __init__(self, turn: Turn, context: PartContext) -> None:
        self._turn = turn
        self._context = context

    def ask(
        self,
        messages: Messages,
        *,
        answer_type: type[BaseModel] | None = None,
        tools: Sequence[Tool] = (),
        phase: str = "",
    ) -> Coroutine[Any, Any, Answer]:
        """Ask one question; await the answer. `messages` may be a function, called when there is room for them.

        With `tools` the answer may hold `tool_calls` in place of a value: ask again with the assistant's message that
        made them and one message of role `tool` for each. `phase` names what the question is for, in the sums.

        Raises ModelError (its class gives the turn's status), BudgetExceededError.
        """
        model = self._context.find_model(self._turn)
        if model is None:
            raise ModelSetupError("none", f"group {self._context.group.name} has no model")
        # Not a coroutine of its own: a million agents may wait in it.
        question = _TurnQuestion(self._context, self._turn, model, messages, answer_type, tuple(tools), phase)
        return model.gateway.ask(question, question.close)


class _TurnQuestion:
    """One question of a turn: a function that builds its request once there is room for it."""

    __slots__ = (
        "_answer_type",
        "_call",
        "_context",
        "_messages",
        "_model",
        "_phase",
        "_sent",
        "_started_s",
        "_tools",
        "_turn",
    )

    def __init__(
        self,
        context: PartContext,
        turn: Turn,
        model: Model,
        messages: Messages,
        answer_type: type[BaseModel] | None,
        tools: tuple[Tool, ...],
        phase: str,
    ) -> None:
        self._context = context
        self._turn = turn
        self._model = model
        self._messages = messages
        self._answer_type = answer_type
        self._tools = tools
        self._phase = phase
        self._call = turn.calls
        turn.calls += 1
        self._started_s = context.clock.now_s()
        self._sent: ModelRequest | None = None

    def __call__(self) -> ModelRequest:
        """The request; a repeated try of the turn's question asks with the same identity.

        Raises BudgetExceededError.
        """
        settings, turn = self._model.settings, self._turn
        tokens_max = None
        if settings.turn_tokens_max is not None:
            spent = turn.prompt_tokens + turn.completion_tokens
            tokens_max = settings.turn_tokens_max - spent
            if tokens_max <= 0:
                raise BudgetExceededError("turn", spent, settings.turn_tokens_max)
        messages = self._messages() if callable(self._messages) else self._messages
        request = self._sent = ModelRequest(
            agent_id=turn.agent_id,
            turn=turn.number,
            call=self._call,
            model=settings.model,
            messages=tuple(messages),
            answer_type=self._answer_type,
            temperature=self._find_temperature() if turn.profile else settings.temperature,
            max_tokens=settings.max_tokens,
            seed=self._find_seed() if turn.profile or settings.seed_answers else None,
            tools=self._tools,
            phase=self._phase,
            tokens_max=tokens_max,
        )
        if settings.prompt_tokens_max is not None:
            tokens = self._model.gateway.estimate_prompt_tokens(request)
            if tokens > settings.prompt_tokens_max:
                raise BudgetExceededError("prompt", tokens, settings.prompt_tokens_max)
        return request

    def close(self, outcome: Answer | ModelError | BudgetExceededError) -> None:
        """Counts what it cost, and records it."""
        turn = self._turn
        turn.attempts += outcome.attempts
        turn.prompt_tokens += outcome.prompt_tokens
        turn.completion_tokens += outcome.completion_tokens
        if isinstance(outcome, Answer):
            turn.mode = outcome.mode
        self._model.tally.add(
            self._model.name,
            self._phase,
            outcome.attempts,
            outcome.prompt_tokens,
            outcome.completion_tokens,
            outcome.microdollars,
        )
        context = self._context
        if outcome.attempts or not isinstance(outcome, BudgetExceededError):
            context.records.add_call(partial(self._describe, outcome, context.clock.now_s()))

    def _find_temperature(self) -> float | None:
        settings = self._model.settings
        own = self._turn.profile.get(settings.temperature_column) if settings.temperature_column else None
        return settings.temperature if own is None or isinstance(own, bool | str) else float(own)

    def _find_seed(self) -> int | None:
        settings, turn = self._model.settings, self._turn
        own = turn.profile.get(settings.seed_column) if settings.seed_column else None
        if not isinstance(own, int) or isinstance(own, bool):
            if not settings.seed_answers:
                return None
            own = self._context.group.seed
        return Draw(own, turn.agent_id, turn.number, self._call, SEED_STREAM).randrange(2**31)

    def _describe(self, outcome: Answer | ModelError | BudgetExceededError, ended_s: float) -> tuple[Any, ...]:
        """The row of this question, in the order of CALL_NAMES."""
        turn, settings, sent = self._turn, self._model.settings, self._sent
        answer = outcome if isinstance(outcome, Answer) else None
        request_hash = request_json = response_text = extract_text = tool_calls_json = None
        if sent is not None and (body := _write_sent(sent, settings)):
            request_hash = hash_request(body)
            if settings.record_bodies:
                request_json = body.decode()
        if settings.record_bodies and not isinstance(outcome, BudgetExceededError):
            response_text = outcome.text
            if answer is not None:
                extract_text = answer.extract
                tool_calls_json = _write_tool_calls(answer)
        return (
            turn.agent_id,
            turn.number,
            self._call,
            self._phase or None,
            self._context.clock.wall_ns(self._started_s),
            settings.model,
            None if answer is None else answer.mode,
            "ok" if answer is not None else find_status(outcome),
            str(outcome) if answer is None else None,
            None if answer is None else answer.finish_reason,
            outcome.attempts,
            outcome.prompt_tokens,
            outcome.completion_tokens,
            outcome.microdollars,
            int(answer is not None and answer.cached),
            (ended_s - self._started_s) * 1000,
            settings.temperature if sent is None else sent.temperature,
            None if sent is None else sent.seed,
            request_hash,
            request_json,
            response_text,
            extract_text,
            tool_calls_json,
        )


def find_status(outcome: Answer | ModelError | BudgetExceededError) -> str:
    """The turn status of a question's end."""
    if isinstance(outcome, Answer):
        return "ok"
    return "budget" if isinstance(outcome, BudgetExceededError) else outcome.status


def _write_sent(sent: ModelRequest, settings: ModelSettings) -> bytes:
    """The request as it is recorded; empty where it is no text, as only made-up models take it."""
    try:
        return describe_request(find_first_request(sent, is_two_call=True) if settings.two_call else sent)
    except ValueError:
        return b""


def _write_tool_calls(answer: Answer) -> str | None:
    if not answer.tool_calls:
        return None
    return to_json(
        [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in answer.tool_calls]
    ).decode()
