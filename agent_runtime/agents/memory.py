"""What an agent remembers between turns, within bounds."""

from __future__ import annotations

from collections import deque

from ecumene.client import Json

MEMORY_CHARS_MAX = 8_000
MEMORY_ITEMS_MAX = 64


class Memory:
    """Short texts in the order in which they were remembered; the oldest make room for the newest.

    At most `items_max` texts and `chars_max` characters; a longer text is cut at its end.
    """

    __slots__ = ("_chars", "_chars_max", "_items", "_items_max")

    def __init__(self, *, items_max: int = MEMORY_ITEMS_MAX, chars_max: int = MEMORY_CHARS_MAX) -> None:
        if items_max < 1 or chars_max < 1:
            raise ValueError("a memory holds at least one item and one character")
        self._items: deque[str] | None = None
        self._chars = 0
        self._items_max = items_max
        self._chars_max = chars_max

    def __len__(self) -> int:
        return len(self._items or ())

    def remember(self, text: str) -> None:
        """Keep a text, and forget the oldest ones that no longer fit."""
        text = text[: self._chars_max]
        if self._items is None:
            # Most of a million agents never remember anything.
            self._items = deque()
        self._items.append(text)
        self._chars += len(text)
        while len(self._items) > self._items_max or self._chars > self._chars_max:
            self._chars -= len(self._items.popleft())

    def recall(self) -> tuple[str, ...]:
        """All that is remembered, the oldest first."""
        return tuple(self._items or ())

    def dump(self) -> Json:
        """All of it, for `load`: JSON of bounded size."""
        return list(self._items or ())

    def load(self, dumped: Json) -> None:
        """Remember what `dump` gave, and nothing else; what no longer fits is forgotten, the oldest first."""
        self._items, self._chars = None, 0
        for text in dumped if isinstance(dumped, list) else ():
            self.remember(str(text))
