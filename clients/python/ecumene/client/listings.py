"""Lists that come in pages, read item by item."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Generic, Self, TypeVar

Item = TypeVar("Item")

Page = tuple[Sequence[Item], str]
"""Items, and the token of the next page; "" = there is none."""


class Listing(Generic[Item]):
    """Items in order, all at one revision; pages are fetched as they are needed.

    Iterating raises:
        PageExpiredError: more than 30 s passed between two pages.
        EcumeneError: the server refused; the class says why.
    """

    def __init__(self, fetch: Callable[[str], Awaitable[Page[Item]]]) -> None:
        self._fetch = fetch
        self._items: Iterator[Item] = iter(())
        self._token: str | None = ""
        """Of the next page; None after the last."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Item:
        while (item := self.try_next()) is None:
            if self._token is None:
                raise StopAsyncIteration
            items, token = await self._fetch(self._token)
            self._items, self._token = iter(items), token or None
        return item

    def try_next(self) -> Item | None:
        """The next item of the page at hand, without waiting; None = the next one must be awaited."""
        return next(self._items, None)

    async def aclose(self) -> None:
        """Read no more."""
        self._items, self._token = iter(()), None
