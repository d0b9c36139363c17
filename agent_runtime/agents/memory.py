"""What an agent remembers between turns, within a bound of tokens.

    remember ─► window: the newest items, word for word
                   │ what no longer fits, the oldest first
                   ▼
                summary: one text, made by a model (`agents.condensing`), or by a rule where there is none or it is late
    facts      named values for the agent's own use; they stand in no prompt by themselves

All of it is plain JSON (`dump`), which is what the world keeps of an agent between its turns.
"""

from __future__ import annotations

import json
from collections import deque
from hashlib import blake2b
from typing import Any, cast

from ecumene.client import Json

from agent_runtime.llm.tokens import estimate_text_tokens

MEMORY_TOKENS_MAX = 2_000
MEMORY_ITEMS_MAX = 64
SUMMARY_SHARE = 0.25
"""Part of the tokens that the summary may take."""
FACTS_BYTES_MAX = 8_192
LINE_CHARS_MAX = 120
"""What the rule keeps of an item that leaves the window."""
_LEFT_OUT = "…"
_ASCII_CHARS_A_TOKEN = 3


TOLD = "You were told: "
"""Before what an agent was told from outside."""
ASKED = "You were asked: "
"""Before what an agent was asked in a survey that it is to remember; it is told by whoever asked."""


class Memory:
    """Short texts in the order in which they were remembered; the oldest make room for the newest, in a summary.

    By the rule of `llm.tokens`, window and summary together take at most `tokens_max` tokens, the summary at most a
    quarter of them; the window has at most `items_max` items. A text that is longer than the window is cut at its end.
    """

    __slots__ = ("_facts", "_items", "_items_max", "_summary", "_summary_tokens_max", "_tokens", "_tokens_max")

    def __init__(self, *, tokens_max: int = MEMORY_TOKENS_MAX, items_max: int = MEMORY_ITEMS_MAX) -> None:
        if items_max < 1 or tokens_max < 16:
            raise ValueError("a memory holds at least one item and 16 tokens")
        # Most of a million agents never remember anything.
        self._items: deque[str] | None = None
        self._facts: dict[str, Json] | None = None
        self._summary = ""
        self._tokens = 0
        self._tokens_max = tokens_max
        self._items_max = items_max
        self._summary_tokens_max = max(1, int(tokens_max * SUMMARY_SHARE))

    def __len__(self) -> int:
        return len(self._items or ())

    @property
    def summary(self) -> str:
        """What is left of everything that is no longer in the window; "" = nothing."""
        return self._summary

    @property
    def window(self) -> tuple[str, ...]:
        """The newest items, the oldest of them first."""
        return tuple(self._items or ())

    @property
    def tokens(self) -> int:
        """Tokens of window and summary, by the rule."""
        return self._tokens + count_tokens(self._summary)

    @property
    def tokens_max(self) -> int:
        """The bound of `tokens`."""
        return self._tokens_max

    @property
    def summary_tokens_max(self) -> int:
        """The bound of the summary alone."""
        return self._summary_tokens_max

    def remember(self, text: str) -> None:
        """Keep a text; the oldest ones that no longer fit go into the summary, by the rule."""
        room = self._tokens_max - self._summary_tokens_max
        if not text.isascii():
            # A model may write halves of signs, which no world could keep.
            text = text.encode("utf-8", "replace").decode()
        text = cut_tokens(text, room)
        if not text:
            return
        if self._items is None:
            self._items = deque()
        self._items.append(text)
        self._tokens += count_tokens(text)
        leaving = []
        while len(self._items) > self._items_max or self._tokens > room:
            oldest = self._items.popleft()
            self._tokens -= count_tokens(oldest)
            leaving.append(oldest)
        if leaving:
            self._summary = summarise_by_rule(self._summary, leaving, self._summary_tokens_max)

    def recall(self) -> tuple[str, ...]:
        """All that is remembered, for a prompt: the summary, if there is one, then the window."""
        return (self._summary, *self.window) if self._summary else self.window

    def replace_oldest(self, count: int, summary: str) -> None:
        """Let a new summary stand for the old one and the `count` oldest items of the window.

        Longer than its bound, it is cut at its end.
        """
        for _ in range(min(count, len(self))):
            assert self._items is not None
            self._tokens -= count_tokens(self._items.popleft())
        clean = " ".join(summary.encode("utf-8", "replace").decode().split())
        self._summary = cut_tokens(clean, self._summary_tokens_max)

    def keep_fact(self, name: str, value: Json) -> None:
        """Keep a value under a name, in place of an earlier one; None forgets it.

        Raises:
            ValueError: it is no JSON value, or all facts together would exceed 8 KiB as JSON.
        """
        facts = {**(self._facts or {}), name: value}
        if value is None:
            del facts[name]
        try:
            size = len(json.dumps(facts, allow_nan=False))
        except TypeError as error:
            raise ValueError(f"fact {name!r} is no JSON value") from error
        if size > FACTS_BYTES_MAX:
            raise ValueError(f"with fact {name!r} the facts take {size} bytes, {FACTS_BYTES_MAX} are allowed")
        self._facts = facts or None

    def find_fact(self, name: str, default: Json = None) -> Json:
        """The value of a name."""
        return (self._facts or {}).get(name, default)

    def dump(self) -> Json:
        """All of it, for `load`: JSON of bounded size."""
        return {"window": list(self._items or ()), "summary": self._summary, "facts": dict(self._facts or {})}

    def load(self, dumped: Json) -> None:
        """Remember what `dump` gave, and nothing else; what no longer fits goes the way of all that is old."""
        document: dict[str, Any] = cast("dict[str, Any]", dumped) if isinstance(dumped, dict) else {}
        self._items, self._tokens = None, 0
        self._facts = dict(document.get("facts") or {}) or None
        self._summary = cut_tokens(str(document.get("summary") or ""), self._summary_tokens_max)
        for text in document.get("window") or ():
            self.remember(str(text))

    def copy(self) -> Memory:
        """Another memory of the same; what either of them learns from now on, the other does not know."""
        twin = Memory(tokens_max=self._tokens_max, items_max=self._items_max)
        twin.load(self.dump())
        return twin

    def hash(self) -> str:
        """The same for the same memory, on every machine: 32 hexadecimal digits over its dump."""
        text = json.dumps(self.dump(), sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        return blake2b(text.encode(), digest_size=16).hexdigest()


def summarise_by_rule(summary: str, leaving: list[str], tokens_max: int) -> str:
    """A summary without a model: the beginning of every item, a line each; the oldest lines make room.

    Begins with `…` once lines were left out.
    """
    lines = [line for line in summary.split("\n") if line and line != _LEFT_OUT]
    is_cut = len(lines) < summary.count("\n") + bool(summary)
    lines += [cut_line(item) for item in leaving]
    spare = tokens_max - count_tokens(_LEFT_OUT)
    kept: list[str] = []
    for line in reversed(lines):
        spare -= count_tokens(line)
        if spare < 0:
            break
        kept.append(line)
    is_cut = is_cut or len(kept) < len(lines)
    return "\n".join(([_LEFT_OUT] if is_cut else []) + kept[::-1])


def cut_line(text: str) -> str:
    """The beginning of a text as one line."""
    line = " ".join(text.split())
    return line if len(line) <= LINE_CHARS_MAX else line[: LINE_CHARS_MAX - 1] + _LEFT_OUT


def count_tokens(text: str) -> int:
    """Tokens of a text that stands in a prompt beside others, by the rule; 0 of none."""
    # One more for what parts it from the next.
    return estimate_text_tokens(text) + 1 if text else 0


def cut_tokens(text: str, tokens_max: int) -> str:
    """A text, or as much of its beginning as takes at most so many tokens."""
    if len(text) < tokens_max and text.isascii():
        return text
    if count_tokens(text) <= tokens_max:
        return text
    # A token is never more than three signs by the rule, so that no longer text can do.
    low, high = 0, min(len(text), _ASCII_CHARS_A_TOKEN * tokens_max)
    while low < high:
        middle = (low + high + 1) // 2
        if count_tokens(text[:middle]) <= tokens_max:
            low = middle
        else:
            high = middle - 1
    return text[:low]
