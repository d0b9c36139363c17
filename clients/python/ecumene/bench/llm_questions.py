"""The questions that a model is asked: the same bytes through the gateway and from the bare load generator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

NUMBER = "{number}"
RULES = (
    "You are one of many people who live in a small town by the sea. Once a day the town's council asks everybody the "
    "same question, and does what most of them say. You have a trade, a family, some savings and an opinion of your "
    "own; what others think you learn only from the council's board, on the day after. Answer as the person that you "
    "are, shortly, and say a number where you are asked for one."
)
QUESTION = (
    "You are resident number {number}. On the board it says that yesterday the mean of all answers was 38.25, and that "
    "fewer people than ever went out to sea. How many of the hundred boats should stay in the harbour tomorrow?"
)
SHAPE: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "reason": {"type": "string", "description": "why, in one sentence"},
        "boats": {"type": "number", "minimum": 0, "maximum": 100},
    },
}
"""The shape of an answer, as the agents of the load are told it."""
STRICT_SHAPE: Mapping[str, Any] = {
    "properties": {
        "reason": {"description": "why, in one sentence", "type": "string"},
        "boats": {"maximum": 100, "minimum": 0, "type": "number"},
    },
    "required": ["reason", "boats"],
    "type": "object",
    "additionalProperties": False,
}
"""The same as endpoints are told it."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked of whom.

    Attributes:
        base_url, model: of the endpoint.
        api_key_file: a file that holds its key; empty = it asks for none.
        is_shaped: answers are objects of a shape; else free text.
        tokens_max: of an answer.
        at_a_time: questions under way at any time.
    """

    base_url: str
    model: str
    api_key_file: str = ""
    is_shaped: bool = False
    tokens_max: int = 64
    at_a_time: int = 64


class Questions:
    """Makes the request of each question."""

    def __init__(self, asked: Asked) -> None:
        self._rules = {"role": "system", "content": RULES}
        self._head = {"model": asked.model}
        self._rest: dict[str, Any] = {"max_tokens": asked.tokens_max, "stream": False}
        if asked.is_shaped:
            shape = {"name": "Answer", "strict": True, "schema": STRICT_SHAPE}
            self._rest["response_format"] = {"type": "json_schema", "json_schema": shape}

    def build(self, number: int) -> dict[str, Any]:
        """The body of a request."""
        question = {"role": "user", "content": QUESTION.replace(NUMBER, str(number))}
        return {**self._head, "messages": [self._rules, question], **self._rest}
