"""Pages: lists longer than one page are read from a snapshot that stays for a while.

Entries are immutable, so a snapshot is a copy of the dict that holds them: about 10 ms for a million.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from env_server.model.errors import InvalidRequest, OutOfRange, Reason
from env_server.model.limits import Limits


class _Cursor:
    __slots__ = ("about", "ahead", "position", "revision", "rows", "used_ns")

    def __init__(self, rows: Iterator[Any], about: tuple[Any, ...], revision: int) -> None:
        self.rows = rows
        self.about = about
        self.revision = revision
        self.ahead: list[Any] = []
        self.position = 0
        self.used_ns = 0


class Pages:
    """Open listings. A token names a listing and a place in it; each page is handed out once.

    At most `pages_open_max` listings, each kept `page_idle_s` after its last use; beyond the number the longest idle
    one goes.
    """

    def __init__(self, limits: Limits, monotonic_ns: Callable[[], int]) -> None:
        self._limits = limits
        self._monotonic_ns = monotonic_ns
        self._cursors: dict[str, _Cursor] = {}
        self._opened = 0

    def begin(
        self, rows: Iterator[Any], about: tuple[Any, ...], size: int, revision: int
    ) -> tuple[list[Any], str, int]:
        """The first page, the token of the next one ("" = there is none) and the revision."""
        cursor = _Cursor(rows, about, revision)
        page = self._take(cursor, size)
        if not cursor.ahead:
            return page, "", revision
        self._expire()
        while len(self._cursors) >= self._limits.pages_open_max:
            del self._cursors[min(self._cursors, key=lambda name: self._cursors[name].used_ns)]
        self._opened += 1
        name = str(self._opened)
        self._cursors[name] = cursor
        return page, f"{name}.{cursor.position}", revision

    def next(self, token: str, about: tuple[Any, ...], size: int) -> tuple[list[Any], str, int]:
        """The page that `token` stands for.

        Raises:
            OutOfRange: PAGE_EXPIRED when the listing is not kept any more or the page was handed out before.
            InvalidRequest: the token belongs to another listing.
        """
        self._expire()
        name, _, position = token.partition(".")
        cursor = self._cursors.get(name)
        if cursor is None or str(cursor.position) != position:
            raise OutOfRange(Reason.PAGE_EXPIRED, "the listing is not kept any more: begin again")
        if cursor.about != about:
            raise InvalidRequest(Reason.INVALID_FIELD, "page_token", "belongs to another listing")
        page = self._take(cursor, size)
        if not cursor.ahead:
            del self._cursors[name]
            return page, "", cursor.revision
        return page, f"{name}.{cursor.position}", cursor.revision

    def _take(self, cursor: _Cursor, size: int) -> list[Any]:
        page = cursor.ahead + list(islice(cursor.rows, size - len(cursor.ahead)))
        cursor.ahead = list(islice(cursor.rows, 1))
        cursor.position += len(page)
        cursor.used_ns = self._monotonic_ns()
        return page

    def _expire(self) -> None:
        oldest = self._monotonic_ns() - int(self._limits.page_idle_s * 1e9)
        for name in [name for name, cursor in self._cursors.items() if cursor.used_ns < oldest]:
            del self._cursors[name]
