"""A watch of several filters: what one of them lets through, once, in order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from env_server.events.alternatives import Alternatives, compile_filters, join
from env_server.events.filters import Matcher
from env_server.events.routing import Routes
from env_server.model.limits import Limits
from env_server.model.watching import Filter
from tests.unit.env_server.events.oracle import FILTERS, ROWS, accepts
from tests.unit.env_server.events.worlds import Row, World

SEVERAL = st.lists(FILTERS, min_size=2, max_size=4)


class Seat:
    """A watch, as far as the index of watches looks at one."""

    def __init__(self, matcher: Matcher | Alternatives) -> None:
        self.number = 1
        self.matcher = matcher


@given(rows=st.lists(ROWS, min_size=1, max_size=12), asked=SEVERAL, first_row=st.integers(0, 12))
def test_it_selects_what_one_of_its_filters_accepts(rows: list[Row], asked: list[Filter], first_row: int) -> None:
    changes = World().apply(*rows)
    selected = join(compile_filters(asked[0], asked[1:], Limits(), None)).select(changes, first_row)
    wanted = [
        number for number, row in enumerate(rows) if number >= first_row and any(accepts(one, row) for one in asked)
    ]
    assert (list(range(len(rows))) if selected is None else selected) == wanted
    assert (selected is None) == (len(wanted) == len(rows))


@given(rows=st.lists(ROWS, min_size=1, max_size=6), asked=SEVERAL)
def test_whatever_it_selects_finds_it_in_the_index(rows: list[Row], asked: list[Filter]) -> None:
    changes = World().apply(*rows)
    seat = Seat(join(compile_filters(asked[0], asked[1:], Limits(), None)))
    routes: Routes[Seat] = Routes()
    routes.add(seat)
    if any(accepts(one, row) for one in asked for row in rows):
        assert routes.find(changes) == [seat]
    routes.remove(seat)
    assert routes.find(changes) == []


def test_one_filter_stays_what_it_is() -> None:
    assert isinstance(join(compile_filters(Filter(key_glob="a"), (), Limits(), None)), Matcher)


def test_those_of_certain_types_are_found_by_them() -> None:
    both = [Filter(path_prefix="/a", types=frozenset({3})), Filter(path_prefix="/b", types=frozenset({16}))]
    joined = join(compile_filters(both[0], both[1:], Limits(), None))
    assert (joined.root, joined.types, joined.key) == ("/", {3, 16}, "")


@pytest.mark.parametrize(
    ("roots", "common"),
    [
        (("/a/./b", "/a/./b"), "/a/./b"),
        (("/a/./b/c", "/a/./b/d"), "/a/./b"),
        (("/a/..", "/a/../x"), "/a/.."),
        (("/", "/a"), "/"),
        (("/ab", "/a"), "/"),
    ],
)
def test_dots_are_names_like_any_other(roots: tuple[str, str], common: str) -> None:
    asked = [Filter(path_prefix=root) for root in roots]
    assert join(compile_filters(asked[0], asked[1:], Limits(), None)).root == common
