"""Tables of neighbours, at once and in slices."""

from __future__ import annotations

import random
from typing import Any

import pytest

from env_server.model.errors import Reason
from env_server.model.frames import NeighbourTable
from env_server.model.limits import Limits
from env_server.model.operations import Code, Delete, Nearby, Neighbours, Placed, Query
from env_server.model.spaces import Graph, Grid, Plane, Space
from tests.engine import Op, Stand, new_environment, put

PLACES = {"a": (1.0, 1.0), "b": (2.0, 1.0), "c": (1.0, 4.0), "d": (7.0, 7.0)}


def place(key: str, position: tuple[float, ...], path: str = "/g") -> Op:
    return Op(path, key, Code.PLACE, Placed(1, position))


def ask(asked: Any, key: str = "", path: str = "/g") -> Op:
    return Op(path, key, Code.QUERY, Query(asked))


@pytest.fixture
def stand() -> Stand:
    stand = Stand()
    stand.done(new_environment("/g", space=Space(Grid(8, 8))), put("/g", "nowhere", 1))
    stand.done(*(place(*one) for one in PLACES.items()))
    return stand


def table_of(told: NeighbourTable) -> dict[str, list[str]]:
    names, rest = [*told.keys, *told.others], list(told.neighbours)
    assert len(told.positions) == len(names) == len(set(names))
    found = {}
    for key, count in zip(told.keys, told.counts, strict=True):
        found[key], rest = [names[row] for row in rest[:count]], rest[count:]
    assert not rest
    return found


def crowd(count: int) -> Stand:
    """Many in one cell."""
    stand = Stand()
    stand.done(new_environment("/g", space=Space(Grid(8, 8))))
    stand.done(*(place(f"k{number:04}", (1.0, 1.0)) for number in range(count)))
    return stand


def test_everybodys_neighbours_are_rows(stand: Stand) -> None:
    told: Any = stand.done(ask(Neighbours(radius=3.0)))[0]
    assert table_of(told) == {"a": ["b", "c"], "b": ["a", "c"], "c": ["a", "b", "d"][:2], "d": []}
    assert told.positions == [PLACES[key] for key in told.keys]
    some: Any = stand.done(ask(Neighbours(nearest=1, keys=("d", "b"))))[0]
    assert table_of(some) == {"d": ["a"], "b": ["a"]}
    assert list(some.keys) == ["d", "b"] and some.others == ["a"]
    assert table_of(stand.done(ask(Neighbours(adjacent=True)))[0]) == {"a": ["b"], "b": ["a"], "c": [], "d": []}  # type: ignore[arg-type]


def test_many_are_answered_in_steps_as_they_were_when_asked(seed: int) -> None:
    chance = random.Random(seed)
    stand = Stand()
    stand.done(new_environment("/g", space=Space(Plane(0.0, 0.0, 100.0, 100.0, True))))
    where = {f"k{index:04d}": (chance.uniform(0, 99), chance.uniform(0, 99)) for index in range(900)}
    stand.done(*(place(*one) for one in where.items()), put("/g", "nowhere", 0))
    keys = tuple(chance.sample(sorted(where), 300))
    one: Any = [stand.done(ask(Nearby(nearest=3), key))[0] for key in keys]
    sent = stand.send(
        ask(Neighbours(nearest=3)),
        ask(Neighbours(nearest=3, keys=keys)),
        *(Op("/g", key, Code.MOVE, (0.0, 0.0)) for key in where),
        Op("/g", "k0000", Code.DELETE_ENTRY, Delete()),
    )
    revision = stand.world.revision - len(where) - 1
    steps = 0
    while not sent.done:
        stand.clock.step()
        steps += 1
    assert sent.parts[0].pending == [0, 1] and steps > 5, "they go on in steps"
    whole, some = table_of(sent.outcome(0)), table_of(sent.outcome(1))  # type: ignore[arg-type]
    assert list(whole) == sorted(where)
    assert list(some) == list(keys)
    assert [some[key] for key in keys] == [whole[key] for key in keys] == [page.keys for page in one]
    assert sent.outcome(0).revision == revision  # type: ignore[union-attr]


def test_of_a_crowd_each_has_no_more_than_asked_for() -> None:
    told: Any = crowd(5).done(ask(Neighbours(nearest=2)))[0]
    found = table_of(told)
    assert found["k0004"] == ["k0000", "k0001"] and found["k0000"] == ["k0001", "k0002"]


def test_an_answer_that_fits_into_no_message_is_refused_by_its_limit() -> None:
    stand = Stand(limits=Limits(message_bytes_max=20_000))
    stand.done(new_environment("/g", space=Space(Grid(8, 8))))
    for asked in (100, 900):
        stand.done(*(place(f"k{index}", (1.0, 1.0)) for index in range(asked)))
        error = stand.do(ask(Neighbours(radius=1.0))).error
        assert (error.reason, error.metadata["limit"]) == (Reason.LIMIT_EXCEEDED, "message_bytes_max")


def test_few_rows_that_look_at_much_are_found_in_slices() -> None:
    stand = crowd(3000)
    keys = tuple(f"k{number:04}" for number in range(40))
    at_once: Any = stand.done(ask(Neighbours(nearest=2, keys=keys)))[0]
    assert at_once.counts == [2] * 40
    sent = stand.do(ask(Neighbours(radius=0.0, keys=keys)))
    table: Any = sent.outcome()
    assert sent.parts[0].pending == [0] and table.counts == [2999] * 40


def test_what_all_rows_look_at_together_is_bounded() -> None:
    """Each row of a hub looks at all of its edges, and finds nobody: the answer's size bounds nothing there."""
    stand = Stand(limits=Limits(neighbours_looks_max=20_000))
    hub = Graph(1001, tuple((0, node, 1.0) for node in range(1, 1001)))
    stand.done(new_environment("/g", space=Space(hub)))
    stand.done(*(place(f"k{node}", (float(node),)) for node in range(1, 201)))
    told: Any = stand.do(ask(Neighbours(radius=1.0)))
    assert told.error.reason is Reason.LIMIT_EXCEEDED and told.error.metadata["limit"] == "neighbours_looks_max"
    few: Any = stand.done(ask(Neighbours(radius=1.0, keys=("k1", "k2"))))[0]
    assert table_of(few) == {"k1": [], "k2": []}
