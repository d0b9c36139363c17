"""Pages: lists longer than one page are read from a snapshot that stays for a while.

Entries are immutable, so a snapshot is a copy of the dict that holds them: 10 to 50 ms for a million.
"""

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

from env_server.model.errors import InvalidRequest, OutOfRange, Reason
from env_server.model.limits import Limits

Weigh = Callable[[Any], int]
"""Bytes that a row takes in an answer: not too few, or a page does not fit into a message."""

Page = tuple[list[Any], str, int]
"""Rows, the token of the next page ("" = there is none), the revision."""


def fill(rows: Iterator[Any], size: int, bytes_max: int, weigh: Weigh) -> tuple[list[Any], list[Any]]:
    """The rows that fit into a page of at most `size` rows and `bytes_max` bytes, at least one, and the row taken last
    that did not fit, if any.
    """
    page: list[Any] = []
    weight = 0
    for row in rows:
        weight += weigh(row)
        if page and (len(page) >= size or weight > bytes_max):
            return page, [row]
        page.append(row)
    return page, []


class _Cursor:
    """One listing: the rows that are left, and the page handed out last, which a client may ask for again."""

    __slots__ = ("about", "held", "last", "position", "revision", "rows", "used_ns", "weigh")

    def __init__(
        self,
        rows: Iterator[Any],
        about: tuple[Any, ...],
        revision: int,
        weigh: Weigh,
        held: dict[str, Any],
    ) -> None:
        self.rows = rows
        self.about = about
        self.revision = revision
        self.weigh = weigh
        self.held = held
        self.position = 0
        self.last: tuple[int, Page] | None = None
        self.used_ns = 0


class Pages:
    """Open listings. A token names a listing and a place in it; the last page may be read again, earlier ones not.

    At most `pages_open_max` listings, each kept `page_idle_s` after its last use; beyond the number, or beyond
    `pages_rows_max` rows in all, the longest idle one goes.
    """

    def __init__(
        self,
        limits: Limits,
        monotonic_ns: Callable[[], int],
        let_go: Callable[[dict[str, Any]], None] = lambda held: None,
        start_mark: str = "",
    ) -> None:
        """`let_go` gets the snapshots of long listings that are not needed any more.

        `start_mark` stands in every token: another one for each start of the world, so that no token of an earlier
        start is taken for one of this.
        """
        self._start_mark = start_mark
        self._let_go = let_go
        self._rows_held = 0
        self._limits = limits
        self._monotonic_ns = monotonic_ns
        self._cursors: dict[str, _Cursor] = {}
        self._opened = 0

    @property
    def any_open(self) -> bool:
        """Whether somebody may still ask for the next page of a listing."""
        self._expire()
        return bool(self._cursors)

    def begin(
        self,
        rows: Iterator[Any],
        about: tuple[Any, ...],
        size: int,
        revision: int,
        weigh: Weigh,
        held: dict[str, Any] | None = None,
    ) -> Page:
        """The first page. `held` is the snapshot that the rows come from, if it is large."""
        self._opened += 1
        name = f"{self._start_mark}-{self._opened}"
        cursor = _Cursor(rows, about, revision, weigh, held if held is not None else {})
        page = self._take(name, cursor, size)
        if page[1]:  # only a listing that goes on takes the place of another
            self._expire()
            self._rows_held += len(cursor.held)
            while self._cursors and (
                len(self._cursors) >= self._limits.pages_open_max or self._rows_held > self._limits.pages_rows_max
            ):
                self._forget(min(self._cursors, key=lambda name: self._cursors[name].used_ns))
            self._cursors[name] = cursor
        elif cursor.held:
            self._let_go(cursor.held)
        return page

    def next(self, token: str, about: tuple[Any, ...], size: int) -> Page:
        """The page that `token` stands for.

        Raises:
            OutOfRange: PAGE_EXPIRED when the listing is not kept any more, as after a restart, or has gone on.
            InvalidRequest: the token belongs to another listing.
        """
        self._expire()
        name, _, position = token.partition(".")
        cursor = self._cursors.get(name)
        if cursor is not None and cursor.about != about:
            raise InvalidRequest(Reason.INVALID_FIELD, "page_token", "belongs to another listing")
        if cursor is not None and cursor.last is not None and str(cursor.last[0]) == position:
            return cursor.last[1]
        if cursor is None or str(cursor.position) != position:
            raise OutOfRange(Reason.PAGE_EXPIRED, "the listing is not kept any more: begin again")
        return self._take(name, cursor, size)

    def _take(self, name: str, cursor: _Cursor, size: int) -> Page:
        rows, ahead = fill(cursor.rows, size, self._limits.page_bytes_max, cursor.weigh)
        began = cursor.position
        cursor.position += len(rows)
        cursor.used_ns = self._monotonic_ns()
        if ahead:
            cursor.rows = chain(ahead, cursor.rows)
        page = (rows, f"{name}.{cursor.position}" if ahead else "", cursor.revision)
        cursor.last = (began, page)
        return page

    def _expire(self) -> None:
        oldest = self._monotonic_ns() - int(self._limits.page_idle_s * 1e9)
        for name in [name for name, cursor in self._cursors.items() if cursor.used_ns < oldest]:
            self._forget(name)

    def _forget(self, name: str) -> None:
        cursor = self._cursors.pop(name)
        self._rows_held -= len(cursor.held)
        if cursor.held:
            self._let_go(cursor.held)
