"""The index of watches: finds all that match, and little else."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from env_server.events.filters import Matcher
from env_server.events.routing import Routes
from env_server.model.changes import EventType
from env_server.model.limits import Limits
from env_server.model.watching import Filter
from tests.unit.env_server.events.oracle import FILTERS, ROWS, accepts
from tests.unit.env_server.events.worlds import Row, World


@dataclass(frozen=True)
class Listener:
    number: int
    matcher: Matcher

    def __hash__(self) -> int:
        return self.number


def add(routes: Routes[Listener], number: int, asked: Filter) -> Listener:
    listener = Listener(number, Matcher(asked, Limits()))
    routes.add(listener)
    return listener


@given(
    st.lists(FILTERS, max_size=12),
    st.lists(st.lists(ROWS, min_size=1, max_size=5), max_size=4),
    st.sets(st.integers(0, 11)),
)
def test_every_watch_that_matches_is_found_once_and_in_order(
    filters: list[Filter], groups: list[list[Row]], removed: set[int]
) -> None:
    routes: Routes[Listener] = Routes()
    listeners = [add(routes, number, asked) for number, asked in enumerate(filters)]
    for number, rows in enumerate(groups):
        if number == 1:
            for listener in listeners:
                if listener.number in removed:
                    routes.remove(listener)
        found = [listener.number for listener in routes.find(World().apply(*rows))]
        assert found == sorted(set(found))
        for listener in listeners:
            matches = any(accepts(filters[listener.number], row) for row in rows)
            if number and listener.number in removed:
                assert listener.number not in found
            elif matches:
                assert listener.number in found


def test_watches_elsewhere_on_other_keys_types_and_actors_are_not_found() -> None:
    routes: Routes[Listener] = Routes()
    for number, asked in enumerate(
        (
            Filter(path_prefix="/far"),
            Filter(path_prefix="/town/a"),
            Filter(path_glob="/far/*/x"),
            Filter(key_glob="other"),
            Filter(types=frozenset({EventType.ENTRY_DELETED})),
            Filter(actor="eve"),
            Filter(region="r"),
        )
    ):
        add(routes, number, asked)
    assert routes.find(World().apply(Row(path="/town", key="a", actor="ann"))) == []
    crossing = Row(path="/town", key="a", type=EventType.REGION_ENTERED, region="s")
    assert routes.find(World().apply(crossing)) == []
    found = routes.find(World().apply(crossing, crossing._replace(region="r")))
    assert [listener.number for listener in found] == [6]


def test_a_watch_added_after_a_path_was_seen_is_found() -> None:
    routes: Routes[Listener] = Routes()
    changes = World().apply(Row(path="/town/a"))
    assert routes.find(changes) == []
    listener = add(routes, 1, Filter(path_prefix="/town"))
    assert routes.find(changes) == [listener]
    routes.remove(listener)
    routes.remove(listener)
    assert routes.find(changes) == []
