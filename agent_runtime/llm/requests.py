"""What goes to a model and what comes back."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from pydantic import BaseModel

Role = Literal["system", "user", "assistant"]


class SchemaMode(StrEnum):
    """How an endpoint is told the shape of a structured answer, the strictest first.

    `TEXT` is not a step of that ladder: it is the mode of a request without an answer type.
    """

    JSON_SCHEMA = "json_schema"
    JSON_OBJECT = "json_object"
    PROMPT = "prompt"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation."""

    role: Role
    content: str


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One question to a model.

    `(agent_id, turn, call)` names the question: scripted and recorded answers are found by it,
    never by the order of calls. `turn` is any number that is unique per agent (the revision of the
    waking event will do), `call` counts the questions of one turn from 0. `attempt` counts the
    provider calls made for this question from 1 and is set by the gateway.

    `answer_type` is the shape of the answer; None asks for free text. `max_tokens` bounds the
    answer. `temperature` and `seed` of None leave the endpoint's default.
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


@dataclass(frozen=True, slots=True)
class Completion:
    """What a provider returned for one call, unread.

    `finish_reason` is `stop`, `length` (cut off at `max_tokens`), `content_filter` (refused, `text`
    is then the refusal) or the endpoint's own word. Token counts are the endpoint's, 0 if it gave none.
    """

    text: str
    finish_reason: str
    prompt_tokens: int
    completion_tokens: int
    model: str


@dataclass(frozen=True, slots=True)
class Answer:
    """A usable answer.

    `value` is the validated instance of the request's `answer_type`, None for free text. `attempts`,
    the token counts and `latency_ms` cover all provider calls made for it: retries, changes of
    `mode`, and the repair call. Time spent waiting for a free place is not in `latency_ms`.
    """

    text: str
    value: BaseModel | None
    finish_reason: str
    attempts: int
    prompt_tokens: int
    completion_tokens: int
    latency_ms: float
    mode: SchemaMode
