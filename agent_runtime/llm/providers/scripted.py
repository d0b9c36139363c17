"""A model made of a function: deterministic answers, simulated latency, injected failures."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields

from pydantic import BaseModel

from agent_runtime.llm.errors import ModelUnavailableError
from agent_runtime.llm.latency import LATENCY_STREAM, FixedLatency, LatencyDistribution
from agent_runtime.llm.requests import Completion, ModelRequest, SchemaMode, ToolCall
from agent_runtime.llm.wakeups import Wakeups
from agent_runtime.model.draws import Draw

ScriptedAnswer = str | BaseModel | Mapping[str, object] | ToolCall | Sequence[ToolCall]
AnswerFunction = Callable[[ModelRequest, Draw], ScriptedAnswer]

_ANSWER_STREAM = 0
_FAULT_STREAM = 2  # plus the attempt
_GARBAGE = "I would rather not put that into a form."


@dataclass(frozen=True, slots=True)
class FaultRates:
    """Shares of calls, each in [0, 1] and at most 1 together, that fail in each way.

    timeout: never answers (the gateway's time limit ends it). unavailable: HTTP 503.
    garbage: text without the object asked for. truncated: half of the answer, finish reason `length`.
    refused: finish reason `content_filter`.
    """

    timeout: float = 0.0
    unavailable: float = 0.0
    garbage: float = 0.0
    truncated: float = 0.0
    refused: float = 0.0

    def __post_init__(self) -> None:
        for field in fields(self):
            if not 0.0 <= getattr(self, field.name) <= 1.0:
                raise ValueError(f"{field.name} must lie in [0, 1], not {getattr(self, field.name)!r}")
        if self.total > 1.0 + 1e-9:
            raise ValueError(f"fault rates sum to {self.total:g}, more than 1")

    @property
    def total(self) -> float:
        return sum(getattr(self, field.name) for field in fields(self))

    def pick_fault(self, draw: Draw) -> str | None:
        """Returns the name of the fault that this draw meets, or None."""
        point = draw.random()
        for field in fields(self):
            point -= getattr(self, field.name)
            if point < 0.0:
                return field.name
        return None


class ScriptedProvider:
    """A provider whose answers come from `answer(request, draw)`: text, an object, or calls of tools.

    Same seed, same answers: they depend on (seed, agent, turn, call) alone, faults on the attempt as
    well, so that a retry may succeed and then gives the answer that it would have given at once.
    Latency never changes an answer. Tokens are estimated at four characters each. Where the value of an answer is
    extracted by a second call, the function is asked twice: `request.step` says for what.
    """

    def __init__(
        self,
        answer: AnswerFunction,
        *,
        seed: int = 0,
        latency: LatencyDistribution | None = None,
        faults: FaultRates | None = None,
        wakeups: Wakeups | None = None,
    ) -> None:
        self._answer = answer
        self._seed = seed
        self._latency = FixedLatency(0.0) if latency is None else latency
        self._fixed_ms = self._latency.ms if isinstance(self._latency, FixedLatency) else None
        self._faults = faults if faults is not None and faults.total > 0.0 else None
        self._wakeups = Wakeups() if wakeups is None else wakeups

    async def complete(self, request: ModelRequest, mode: SchemaMode) -> Completion:
        fault = None
        if self._faults is not None:
            fault = self._faults.pick_fault(self._draw(request, _FAULT_STREAM + request.attempt))
            if fault == "timeout":
                await asyncio.get_running_loop().create_future()
        if self._fixed_ms is None:
            await self._wakeups.sleep_ms(self._latency.sample_ms(self._draw(request, LATENCY_STREAM)))
        elif self._fixed_ms > 0.0:
            await self._wakeups.sleep_ms(self._fixed_ms)
        if fault == "unavailable":
            raise ModelUnavailableError(request.model, "scripted", "injected fault", http_status=503)
        if fault == "garbage":
            return self._completion(request, _GARBAGE, "stop")
        if fault == "refused":
            return self._completion(request, "", "content_filter")
        answer = self._answer(request, self._draw(request, _ANSWER_STREAM))
        if isinstance(answer, ToolCall):
            answer = (answer,)
        if isinstance(answer, Sequence) and not isinstance(answer, str):
            return self._completion(request, "", "tool_calls", tuple(answer))
        text = _as_text(answer)
        if fault == "truncated":
            return self._completion(request, text[: len(text) // 2], "length")
        return self._completion(request, text, "stop")

    async def aclose(self) -> None:
        """Nothing to release."""

    def _draw(self, request: ModelRequest, stream: int) -> Draw:
        return Draw(self._seed, request.agent_id, request.turn, request.call, stream)

    def _completion(
        self, request: ModelRequest, text: str, finish_reason: str, tool_calls: tuple[ToolCall, ...] = ()
    ) -> Completion:
        prompt_chars = sum(len(message.content) for message in request.messages)
        answer_chars = len(text) + sum(len(call.name) + len(call.arguments) for call in tool_calls)
        return Completion(text, finish_reason, -(-prompt_chars // 4), -(-answer_chars // 4), request.model, tool_calls)


def _as_text(answer: str | BaseModel | Mapping[str, object]) -> str:
    if isinstance(answer, str):
        return answer
    if isinstance(answer, BaseModel):
        return answer.model_dump_json()
    return json.dumps(answer, ensure_ascii=False)
