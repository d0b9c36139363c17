"""How many tokens a request will take, without anybody's tokenizer.

The rule: one token for 3 ASCII characters, one for 2 bytes of any other text, 4 for each message and 8 for
the request. English takes about one for 4 characters, Chinese about one for 3 bytes, digits and code one
for 2 to 3 characters: the rule is meant to err upwards. What the endpoint reports corrects it: the estimate
follows at once when the rule was too low, and slowly when it was too high.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from agent_runtime.llm.requests import Message, ModelRequest

ASCII_CHARS_A_TOKEN = 3
OTHER_BYTES_A_TOKEN = 2
MESSAGE_TOKENS = 4
REQUEST_TOKENS = 8

FACTOR_MIN, FACTOR_MAX = 0.25, 4.0
TOKENS_MAX = 2**31 - 1
"""Of one call, and no more than a record can tell."""
_FALL = 0.05
_SPARE = 1.02


def estimate_text_tokens(text: str) -> int:
    """Tokens of a text, by the rule."""
    if text.isascii():
        return -(-len(text) // ASCII_CHARS_A_TOKEN)
    ascii_chars = len(text.encode("ascii", "ignore"))
    others = len(text.encode("utf-8", "surrogatepass")) - ascii_chars
    return math.ceil(ascii_chars / ASCII_CHARS_A_TOKEN + others / OTHER_BYTES_A_TOKEN)


def estimate_message_tokens(messages: Iterable[Message]) -> int:
    """Tokens of a prompt made of these messages, by the rule."""
    tokens = REQUEST_TOKENS
    for message in messages:
        tokens += MESSAGE_TOKENS + estimate_text_tokens(message.content)
        for call in message.tool_calls:
            tokens += MESSAGE_TOKENS + estimate_text_tokens(call.name) + estimate_text_tokens(call.arguments)
    return tokens


def read_count(told: object) -> int:
    """A number of tokens as an endpoint tells it; 0, which is none, for whatever cannot be one.

    Endpoints are not believed: limits and budgets count on it, and the records have 32 bits for it.
    """
    is_count = isinstance(told, int | float) and not isinstance(told, bool) and 0 <= told <= TOKENS_MAX
    return int(told) if is_count else 0  # type: ignore[call-overload]


def estimate_prompt_tokens(request: ModelRequest) -> int:
    """Tokens that a request takes to send, by the rule: its messages and the descriptions of its tools."""
    tokens = estimate_message_tokens(request.messages)
    for tool in request.tools:
        tokens += MESSAGE_TOKENS + estimate_text_tokens(f"{tool.name}{tool.description}{tool.parameters}")
    return tokens


class TokenEstimator:
    """The rule, corrected by what one model's endpoint reports."""

    __slots__ = ("_factor",)

    def __init__(self) -> None:
        self._factor = 1.0

    @property
    def factor(self) -> float:
        """By what the rule's number is multiplied: 1 before the first report."""
        return self._factor

    def correct(self, tokens: int) -> int:
        """The rule's number as the endpoint is likely to count."""
        return math.ceil(tokens * self._factor)

    def learn(self, tokens: int, reported_tokens: int) -> None:
        """Takes in what the endpoint reported for a prompt of so many tokens by the rule; 0 = it reported none."""
        if tokens <= 0 or reported_tokens <= 0:
            return
        factor = _SPARE * reported_tokens / tokens
        if factor < self._factor:
            factor = self._factor + _FALL * (factor - self._factor)
        self._factor = min(FACTOR_MAX, max(FACTOR_MIN, factor))
