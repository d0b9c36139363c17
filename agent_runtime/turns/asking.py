"""How a turn asks its model: identity, budget, cost and record of each question are taken care of."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pydantic import BaseModel
from pydantic_core import to_json

from agent_runtime.llm import Answer, Message, ModelError, ModelRequest, ModelSetupError
from agent_runtime.model.draws import Draw

if TYPE_CHECKING:
    from agent_runtime.turns.desk import Desk
    from agent_runtime.turns.gateways import Model
    from agent_runtime.turns.turn import Turn

SEED_STREAM = 32
Messages = Sequence[Message] | Callable[[], Sequence[Message]]


class Asking:
    """The model of one agent, within one turn."""

    __slots__ = ("_desk", "_turn")

    def __init__(self, turn: Turn, desk: Desk) -> None:
        self._turn = turn
        self._desk = desk

    async def ask(self, messages: Messages, *, answer_type: type[BaseModel] | None = None) -> Answer:
        """Ask one question; `messages` may be a function, which is called when there is room for them.

        Raises ModelError (its class gives the turn's status), BudgetExceededError.
        """
        desk, turn = self._desk, self._turn
        model = desk.model
        if model is None:
            raise ModelSetupError("none", f"group {desk.group.name} has no model")
        model.check_budget()
        call = turn.calls
        turn.calls += 1
        sent: list[ModelRequest] = []

        def build() -> ModelRequest:
            # A repeated try of the turn's question asks with the same identity.
            request = self._build_request(model, call, messages() if callable(messages) else messages, answer_type)
            sent.append(request)
            return request

        started_s = desk.clock.now_s()
        try:
            answer = await model.gateway.ask(build)
        except ModelError as error:
            self._note_cost(model, error.attempts, error.prompt_tokens, error.completion_tokens)
            self._record(model, call, started_s, sent, error)
            raise
        self._note_cost(model, answer.attempts, answer.prompt_tokens, answer.completion_tokens)
        turn.mode = answer.mode.value
        self._record(model, call, started_s, sent, answer)
        return answer

    def _build_request(
        self, model: Model, call: int, messages: Sequence[Message], answer_type: type[BaseModel] | None
    ) -> ModelRequest:
        settings, turn = model.settings, self._turn
        seed = None
        if settings.seed_answers:
            draw = Draw(self._desk.group.seed, turn.agent_id, turn.number, call, SEED_STREAM)
            seed = draw.randrange(2**31)
        return ModelRequest(
            agent_id=turn.agent_id,
            turn=turn.number,
            call=call,
            model=settings.model,
            messages=tuple(messages),
            answer_type=answer_type,
            temperature=settings.temperature,
            max_tokens=settings.max_tokens,
            seed=seed,
        )

    def _note_cost(self, model: Model, attempts: int, prompt_tokens: int, completion_tokens: int) -> None:
        turn = self._turn
        turn.attempts += attempts
        turn.prompt_tokens += prompt_tokens
        turn.completion_tokens += completion_tokens
        model.tokens_spent += prompt_tokens + completion_tokens

    def _record(
        self, model: Model, call: int, started_s: float, sent: list[ModelRequest], outcome: Answer | ModelError
    ) -> None:
        desk, turn, settings = self._desk, self._turn, model.settings
        if not desk.ledger.is_recording:
            return
        is_answer = isinstance(outcome, Answer)
        row = {
            "agent": turn.agent_id,
            "turn": turn.number,
            "call": call,
            "wall_time_ns": desk.clock.wall_ns(started_s),
            "model": settings.model,
            "mode": outcome.mode.value if isinstance(outcome, Answer) else None,
            "status": "ok" if isinstance(outcome, Answer) else outcome.status,
            "reason": None if is_answer else str(outcome),
            "finish_reason": outcome.finish_reason if isinstance(outcome, Answer) else None,
            "attempts": outcome.attempts,
            "prompt_tokens": outcome.prompt_tokens,
            "completion_tokens": outcome.completion_tokens,
            "latency_ms": (desk.clock.now_s() - started_s) * 1000,
            "temperature": settings.temperature,
        }
        if sent:
            body = to_json([(message.role, message.content) for message in sent[0].messages])
            row["seed"] = sent[0].seed
            row["request_hash"] = hashlib.blake2b(body, digest_size=16).hexdigest()
            if settings.record_bodies:
                row["request_json"] = body.decode()
        if settings.record_bodies:
            row["response_text"] = outcome.text
        desk.ledger.add_call(row)
