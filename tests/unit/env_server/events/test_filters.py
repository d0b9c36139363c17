"""Which rows a compiled filter selects, held against one condition a row."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from env_server.events.filters import Matcher
from env_server.model.errors import InvalidRequest
from env_server.model.limits import Limits
from env_server.model.watching import Filter
from tests.unit.env_server.events.oracle import FILTERS, ROWS, accepts
from tests.unit.env_server.events.worlds import Row, World


class Untouchable(list):  # type: ignore[type-arg]
    """A column that must not be walked."""

    def __iter__(self) -> object:  # type: ignore[override]
        raise AssertionError("work per row")


@given(rows=st.lists(ROWS, min_size=1, max_size=12), asked=FILTERS, first_row=st.integers(0, 12))
def test_select_is_the_filter_applied_to_each_row(rows: list[Row], asked: Filter, first_row: int) -> None:
    changes = World().apply(*rows)
    selected = Matcher(asked, Limits()).select(changes, first_row)
    wanted = [number for number, row in enumerate(rows) if number >= first_row and accepts(asked, row)]
    assert (list(range(len(rows))) if selected is None else selected) == wanted
    assert (selected is None) == (len(wanted) == len(rows)), "all rows are told by None alone"


AROUND = ("/", "/to", "/town-", "/town.", "/town0", "/town/a", "/town/a-", "/town/a/0", "/town/b", "/tows")
"""On both sides of "/town" and "/town/a" in every order."""


@given(
    rows=st.lists(ROWS, min_size=1, max_size=12),
    asked=FILTERS,
    others=st.lists(st.sampled_from(AROUND), max_size=10),
    place=st.integers(0, 12),
    first_row=st.integers(0, 60),
)
def test_among_many_places_it_selects_the_same(
    rows: list[Row], asked: Filter, others: list[str], place: int, first_row: int
) -> None:
    many = [Row(path=f"/far/{number}") for number in range(40)]
    rows = [*rows[:place], *many, *(Row(path=path) for path in others), *rows[place:]]
    changes = World().apply(*rows)
    for _ in range(2):  # with what is kept with the group, too
        selected = Matcher(asked, Limits()).select(changes, first_row)
        wanted = [number for number, row in enumerate(rows) if number >= first_row and accepts(asked, row)]
        assert (list(range(len(rows))) if selected is None else selected) == wanted


def test_a_filter_for_one_of_thousands_of_places_looks_at_that_one(monkeypatch: pytest.MonkeyPatch) -> None:
    changes = World().apply(*(Row(path=f"/town/{number}") for number in range(4000)))
    looked: list[object] = []
    matches_place = Matcher.matches_place
    monkeypatch.setattr(Matcher, "matches_place", lambda *both: (looked.append(both), matches_place(*both))[1])
    rows = changes.path
    for number in range(0, 4000, 40):
        matcher = Matcher(Filter(path_prefix=f"/town/{number}"), Limits())
        assert matcher.select(changes) == [number]
        changes.path = Untouchable(rows)  # looked through once, for all
    assert len(looked) == 100


@given(rows=st.lists(ROWS, min_size=1, max_size=6), asked=FILTERS)
def test_everything_selected_lies_at_or_below_the_root(rows: list[Row], asked: Filter) -> None:
    root = Matcher(asked, Limits()).root
    for row in rows:
        assert not accepts(asked, row) or root == "/" or f"{row.path}/".startswith(f"{root}/")


@pytest.mark.parametrize(("prefix", "selected"), [("/town", None), ("/far", [])])
def test_places_that_all_match_or_all_do_not_decide_without_work_per_row(
    prefix: str, selected: list[int] | None
) -> None:
    changes = World().apply(Row(path="/town/a"), Row(path="/town/b"))
    for column in ("path", "keys", "types", "actors", "producers"):
        setattr(changes, column, Untouchable(getattr(changes, column)))
    assert Matcher(Filter(path_prefix=prefix), Limits()).select(changes) == selected


@pytest.mark.parametrize(
    "asked", [Filter(path_prefix="town"), Filter(path_prefix="/town/"), Filter(path_glob="x"), Filter(key_glob="[")]
)
def test_a_filter_that_can_never_match_as_meant_is_refused(asked: Filter) -> None:
    with pytest.raises(InvalidRequest):
        Matcher(asked, Limits())


def test_labels_are_those_recorded_with_the_group() -> None:
    matcher = Matcher(Filter(labels={"zone": "a"}), Limits())
    changes = World().apply(Row(labels=(("zone", "a"), ("size", "9"))), Row(path="/b", labels=(("zone", "b"),)))
    assert matcher.select(changes) == [0]
