"""Prompts whose beginning many agents share, within a bound of tokens.

An endpoint that caches prefixes computes the shared beginning of many prompts once. So what is the same for
all stands first (the rules), then what is the same in a round, then what is one agent's own: its persona,
what it remembers, what was said.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from agent_runtime.llm.requests import Message
from agent_runtime.llm.tokens import estimate_message_tokens

_GAP = "\n\n"


class PromptTooLongError(ValueError):
    """A prompt that exceeds its bound even without memory and history."""

    def __init__(self, tokens: int, tokens_max: int) -> None:
        self.tokens = tokens
        self.tokens_max = tokens_max
        super().__init__(f"the prompt takes about {tokens} tokens without memory and history, {tokens_max} are allowed")


def build_messages(
    *,
    rules: str,
    round: str = "",
    persona: str = "",
    memory: Sequence[str] = (),
    history: Sequence[Message] = (),
    question: str = "",
    tokens_max: int | None = None,
) -> tuple[Message, ...]:
    """Messages with the shared text first: `rules` to the system; then, to the user, `round`, `persona`,
    `memory` and `question`; then `history`, the turn's own conversation with its tool calls and their replies.

    Texts that are empty are left out. With `tokens_max` (by the rule of `tokens`) the oldest memory goes
    first, then the oldest exchanges of the history, a tool call always with its replies.

    Raises:
        PromptTooLongError: what is left is still too long.
    """
    exchanges = split_exchanges(history)

    def build_without(oldest: int) -> tuple[Message, ...]:
        """The messages without so many of what goes first."""
        remembered = memory[min(oldest, len(memory)) :]
        told = _GAP.join(filter(None, (round, persona, *remembered, question)))
        kept = exchanges[max(0, oldest - len(memory)) :]
        head = [Message("system", rules)] if rules else []
        if told:
            head.append(Message("user", told))
        return (*head, *(message for exchange in kept for message in exchange))

    messages = build_without(0)
    if tokens_max is None or estimate_message_tokens(messages) <= tokens_max:
        return messages
    most = len(memory) + len(exchanges)
    fewest = bisect_left(range(most), True, key=lambda some: estimate_message_tokens(build_without(some)) <= tokens_max)
    messages = build_without(fewest)
    if (tokens := estimate_message_tokens(messages)) > tokens_max:
        raise PromptTooLongError(tokens, tokens_max)
    return messages


def split_exchanges(history: Iterable[Message]) -> list[list[Message]]:
    """A conversation in pieces that may each be left out without breaking the others: a message that calls
    tools stands with the replies to it."""
    exchanges: list[list[Message]] = []
    for message in history:
        if message.role == "tool" and exchanges:
            exchanges[-1].append(message)
        else:
            exchanges.append([message])
    return exchanges
