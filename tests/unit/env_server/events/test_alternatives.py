"""What matches any of several filters, held against one condition a row."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from env_server.events.alternatives import AnyMatcher, compile_filter
from env_server.events.filters import Matcher
from env_server.events.routing import Routes
from env_server.model.errors import DeniedView, InvalidRequest, LimitExceeded
from env_server.model.limits import Limits
from env_server.model.views import View
from env_server.model.watching import Filter
from tests.unit.env_server.events.oracle import FILTERS, ROWS, accepts
from tests.unit.env_server.events.worlds import Row, World

SEVERAL = st.lists(FILTERS, min_size=1, max_size=4)


@dataclass(frozen=True)
class Listener:
    number: int
    matcher: Matcher | AnyMatcher

    def __hash__(self) -> int:
        return self.number


@given(rows=st.lists(ROWS, min_size=1, max_size=12), several=SEVERAL, first_row=st.integers(0, 12))
def test_it_selects_what_any_of_them_accepts_in_the_order_of_events(
    rows: list[Row], several: list[Filter], first_row: int
) -> None:
    changes = World().apply(*rows)
    selected = compile_filter(Filter(any_of=tuple(several)), Limits()).select(changes, first_row)
    wanted = [
        number
        for number, row in enumerate(rows)
        if number >= first_row and any(accepts(asked, row) for asked in several)
    ]
    assert (list(range(len(rows))) if selected is None else selected) == wanted


@given(rows=st.lists(ROWS, min_size=1, max_size=6), several=SEVERAL)
def test_it_is_found_by_every_group_that_holds_a_match(rows: list[Row], several: list[Filter]) -> None:
    routes: Routes[Listener] = Routes()
    listener = Listener(1, compile_filter(Filter(any_of=tuple(several)), Limits()))
    routes.add(listener)
    found = routes.find(World().apply(*rows))
    if any(accepts(asked, row) for asked in several for row in rows):
        assert found == [listener]
    routes.remove(listener)
    assert routes.find(World().apply(*rows)) == []


@pytest.mark.parametrize(
    ("prefixes", "root"),
    [(("/town/a", "/town/a/b"), "/town/a"), (("/town/a", "/town/ab"), "/town"), (("/a", "/b"), "/"), (("", "/a"), "/")],
)
def test_its_root_is_the_deepest_above_all(prefixes: tuple[str, ...], root: str) -> None:
    matcher = compile_filter(Filter(any_of=tuple(Filter(path_prefix=prefix) for prefix in prefixes)), Limits())
    assert matcher.root == root


def test_they_stand_alone_are_not_nested_and_not_too_many() -> None:
    for asked in (Filter(path_prefix="/a", any_of=(Filter(),)), Filter(any_of=(Filter(any_of=(Filter(),)),))):
        with pytest.raises(InvalidRequest):
            compile_filter(asked, Limits())
    with pytest.raises(LimitExceeded):
        compile_filter(Filter(any_of=(Filter(),) * 17), Limits())


def test_a_group_must_see_each_of_them() -> None:
    view = View("/east", {})
    seen, hidden = Filter(path_prefix="/east"), Filter(path_prefix="/west")
    compile_filter(Filter(any_of=(seen, Filter(path_prefix="/"))), Limits(), view)
    with pytest.raises(DeniedView):
        compile_filter(Filter(any_of=(seen, hidden)), Limits(), view)
