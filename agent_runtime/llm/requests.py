"""What goes to a model and what comes back.

All of these are values, which nobody changes. Those that are made for each question are not frozen, since that sets every
field by a call of its own: it was a tenth of what a question costs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

from pydantic import BaseModel

Role = Literal["system", "user", "assistant", "tool"]


class SchemaMode(StrEnum):
    """How an endpoint is told the shape of a structured answer, the strictest first.

    `TEXT` is not a step of that ladder: it is the mode of a request without an answer type.
    """

    JSON_SCHEMA = "json_schema"
    JSON_OBJECT = "json_object"
    PROMPT = "prompt"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class Tool:
    """What a model may call. `parameters` is the JSON schema of its arguments, an object."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A model's wish to call a tool. `arguments` is a JSON object as text, as the model wrote it."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation.

    `tool_calls` stand in a message of the assistant, whose `content` may then be empty; each is replied
    to by one message of role `tool` that names it by `tool_call_id`, before anything else is said.
    """

    role: Role
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""


@dataclass(slots=True, unsafe_hash=True)
class ModelRequest:
    """One question to a model.

    `(agent_id, turn, call)` names the question: scripted and recorded answers are found by it,
    never by the order of calls. `turn` is any number that is unique per agent (the revision of the
    waking event will do), `call` counts the questions of one turn from 0. `attempt` counts the
    provider calls made for this question from 1 and is set by the gateway, as is `step`: 0, or 1 where
    the answer is extracted from an earlier one.

    `answer_type` is the shape of the answer; None asks for free text. `max_tokens` bounds the
    answer. `temperature` and `seed` of None leave the endpoint's default. `tools` may be called instead
    of answering. `phase` names what the question is for, in the sums of what was spent. `tokens_max` bounds
    what the question may take in all, sent and received; None leaves it to the budgets.
    """

    agent_id: str
    turn: int
    call: int
    model: str
    messages: tuple[Message, ...]
    answer_type: type[BaseModel] | None = None
    temperature: float | None = None
    max_tokens: int = 256
    seed: int | None = None
    attempt: int = 1
    tools: tuple[Tool, ...] = ()
    phase: str = ""
    step: int = 0
    tokens_max: int | None = None


@dataclass(slots=True, unsafe_hash=True)
class Completion:
    """What a provider returned for one call, unread.

    `finish_reason` is `stop`, `length` (cut off at `max_tokens`), `tool_calls`, `content_filter` (refused,
    `text` is then the refusal) or the endpoint's own word. Token counts are the endpoint's, 0 if it gave none.
    """

    text: str
    finish_reason: str
    prompt_tokens: int
    completion_tokens: int
    model: str
    tool_calls: tuple[ToolCall, ...] = ()


@dataclass(slots=True, unsafe_hash=True)
class Answer:
    """A usable answer.

    `value` is the validated instance of the request's `answer_type`, None for free text and where
    `tool_calls` came instead. `text` is what the model wrote; where the value was extracted by a second
    call, it is the first answer and `extract` what was extracted from it. `attempts`, the token counts,
    `microdollars` and `latency_ms` cover all provider calls made for it: retries, changes of `mode`, and
    repairs. Time spent waiting for a free place is not in `latency_ms`. `cached` answers were given
    before to an identical request and cost nothing.
    """

    text: str
    value: BaseModel | None
    finish_reason: str
    attempts: int
    prompt_tokens: int
    completion_tokens: int
    latency_ms: float
    mode: SchemaMode
    tool_calls: tuple[ToolCall, ...] = ()
    extract: str | None = None
    microdollars: int = 0
    cached: bool = False
