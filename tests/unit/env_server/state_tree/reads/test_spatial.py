"""Reads of a space: who is near, how far it is, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from env_server.model.errors import Reason, WorldError
from env_server.model.limits import Limits
from env_server.model.operations import Code, Distance, Nearby, Neighbours, Placed, Query
from env_server.model.spaces import Box, Graph, Grid, Space
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


def nearby(stand: Stand, asked: Nearby, key: str = "") -> Any:
    return stand.done(ask(asked, key))[0]


def test_nearest_first_then_by_key_and_without_oneself(stand: Stand) -> None:
    page = nearby(stand, Nearby(radius=3.0), "a")
    assert (page.keys, page.distances) == (["b", "c"], [1.0, 3.0])
    assert page.positions == [(2.0, 1.0), (1.0, 4.0)]
    assert (page.more, page.revision) == (False, stand.world.revision)
    assert nearby(stand, Nearby((1.0, 1.0), radius=3.0)).keys == ["a", "b", "c"]
    assert nearby(stand, Nearby(nearest=1), "a").keys == ["b"]
    assert nearby(stand, Nearby((2.0, 1.0), nearest=2)).keys == ["b", "a"]
    assert nearby(stand, Nearby(adjacent=True), "a").keys == ["b"]
    box = nearby(stand, Nearby(box=Box((0.0, 0.0), (1.0, 7.0))))
    assert (box.keys, box.distances, box.positions) == (["a", "c"], [], [(1.0, 1.0), (1.0, 4.0)])


def test_a_limit_says_that_there_are_more(stand: Stand) -> None:
    page = nearby(stand, Nearby(radius=20.0, limit=2), "a")
    assert (page.keys, page.more) == (["b", "c"], True)
    assert not nearby(stand, Nearby(radius=20.0, limit=3), "a").more


def test_ops_of_one_frame_see_what_was_done_before(stand: Stand) -> None:
    asked = ask(Nearby(radius=1.0), "a")
    outcomes: list[Any] = stand.done(
        asked, Op("/g", "d", Code.MOVE, (1.0, 0.0)), asked, Op("/g", "b", Code.MOVE, ()), asked
    )
    assert [one.keys for one in outcomes[::2]] == [["b"], ["b", "d"], ["d"]]


@pytest.mark.parametrize(
    ("asked", "key", "reason"),
    [
        (Nearby(radius=1.0), "nobody", Reason.ENTRY_NOT_FOUND),
        (Nearby(radius=1.0), "nowhere", Reason.NOT_PLACED),
        (Nearby((8.0, 0.0), radius=1.0), "", Reason.INVALID_POSITION),
        (Nearby((-1.0, 0.0), nearest=3), "", Reason.INVALID_POSITION),
        (Nearby((0.5, 0.0), adjacent=True), "", Reason.INVALID_POSITION),
        (Nearby((1.0,), radius=1.0), "", Reason.INVALID_POSITION),
        (Nearby(box=Box((0.0, 0.0), (9.0, 9.0))), "", Reason.INVALID_POSITION),
        (Nearby(radius=-1.0), "a", Reason.INVALID_FIELD),
        (Nearby(radius=float("nan")), "a", Reason.INVALID_FIELD),
        (Nearby(radius=1.0), "", Reason.INVALID_FIELD),
        (Nearby((1.0, 1.0), radius=1.0), "a", Reason.INVALID_FIELD),
        (Nearby(), "a", Reason.INVALID_FIELD),
        (Nearby(radius=1.0, nearest=1), "a", Reason.INVALID_FIELD),
        (Nearby(box=Box((0.0, 0.0), (1.0, 1.0))), "a", Reason.INVALID_FIELD),
        (Nearby(radius=1.0, limit=10_001), "a", Reason.LIMIT_EXCEEDED),
        (Nearby(nearest=10_001), "a", Reason.LIMIT_EXCEEDED),
        (Distance(None, "a", (9.0, 9.0), ""), "", Reason.INVALID_POSITION),
        (Distance(None, "a", None, "nobody"), "", Reason.ENTRY_NOT_FOUND),
        (Distance(None, "nowhere", None, "a"), "", Reason.NOT_PLACED),
        (Distance(None, "a", None, ""), "", Reason.INVALID_FIELD),
        (Distance((1.0, 1.0), "a", None, "b"), "", Reason.INVALID_FIELD),
        (Neighbours(radius=1.0, keys=("a", "nobody")), "", Reason.ENTRY_NOT_FOUND),
        (Neighbours(radius=1.0, keys=("nowhere",)), "", Reason.NOT_PLACED),
        (Neighbours(radius=1.0, keys=("a", "a")), "", Reason.INVALID_FIELD),
        (Neighbours(radius=-1.0), "", Reason.INVALID_FIELD),
        (Neighbours(), "", Reason.INVALID_FIELD),
    ],
)
def test_what_is_nowhere_is_an_error_and_no_empty_answer(stand: Stand, asked: Any, key: str, reason: Reason) -> None:
    assert stand.do(ask(asked, key)).error.reason is reason


def test_without_a_space_there_is_nothing_to_ask(stand: Stand) -> None:
    for asked in (Nearby(radius=1.0), Distance((1.0,), "", (1.0,), ""), Neighbours(nearest=1)):
        assert stand.do(ask(asked, "x", "/")).error.reason is Reason.SPACE_NOT_FOUND


def test_how_far_it_is_and_which_way() -> None:
    stand = Stand()
    graph = Graph(5, ((0, 1, 1.0), (1, 2, 1.0), (0, 2, 5.0), (3, 4, 1.0)))
    stand.done(new_environment("/g", space=Space(graph)), place("a", (0.0,)), place("z", (4.0,)))
    by_weight, by_hops = stand.done(
        ask(Distance(None, "a", (2.0,), "")), ask(Distance((0.0,), "", (2.0,), "", hops=True))
    )
    assert by_weight[:2] == (2.0, (0, 1, 2)) and by_hops[:2] == (1.0, (0, 2))  # type: ignore[index]
    error = stand.do(ask(Distance(None, "a", None, "z"))).error
    assert error.reason is Reason.UNREACHABLE
    plain: Any = stand.done(ask(Distance(None, "a", None, "a")))[0]
    assert plain[:2] == (0.0, (0,))


def test_a_query_that_looks_at_too_much_is_refused_by_its_limit() -> None:
    stand = Stand(limits=Limits(space_looks_max=300))
    stand.done(new_environment("/g", space=Space(Grid(8, 8))))
    stand.done(*(place(f"k{index}", (float(index % 8), float(index // 8 % 8))) for index in range(500)))
    sent = stand.do(ask(Nearby(radius=9.0), "k1"), ask(Nearby(nearest=3), "k1"))
    error = sent.outcome(0)
    assert isinstance(error, WorldError) and error.metadata["limit"] == "space_looks_max"
    assert len(sent.outcome(1).keys) == 3  # type: ignore[union-attr]


def test_of_a_crowd_there_are_no_more_than_asked_for() -> None:
    stand = Stand()
    stand.done(new_environment("/g", space=Space(Grid(8, 8))))
    stand.done(*(place(f"k{index}", (1.0, 1.0)) for index in range(5)))
    assert nearby(stand, Nearby(nearest=2), "k4").keys == ["k0", "k1"]


def crowd(count: int, **limits: int) -> Stand:
    """Many in one cell."""
    stand = Stand(limits=Limits(**limits))
    stand.done(new_environment("/g", space=Space(Grid(8, 8))))
    stand.done(*(place(f"k{number:04}", (1.0, 1.0)) for number in range(count)))
    return stand


def errors_of(stand: Stand, op: Op, count: int) -> list[WorldError | None]:
    """What became of one op, sent so many times in one frame; None = it was done."""
    sent = stand.do(*[op] * count)
    outcomes = [sent.outcome(index) for index in range(count)]
    return [outcome if isinstance(outcome, WorldError) else None for outcome in outcomes]


def test_a_box_with_a_crowd_is_refused_as_any_other_question() -> None:
    stand = crowd(1000, space_looks_max=500)
    for asked in (Nearby(box=Box((0.0, 0.0), (7.0, 7.0)), limit=1), Nearby((1.0, 1.0), radius=1.0, limit=1)):
        assert stand.do(ask(asked)).error.metadata["limit"] == "space_looks_max"


def test_heavy_questions_of_one_frame_are_bounded_together_and_light_ones_are_not() -> None:
    stand = crowd(1000, space_looks_max=2_000)
    heavy = ask(Nearby((1.0, 1.0), radius=1.0, limit=1))
    errors = errors_of(stand, heavy, 50)
    assert [error is None for error in errors] == [True] * 3 + [False] * 47
    assert {(error.reason, error.metadata["limit"]) for error in errors if error} == {
        (Reason.RATE_LIMITED, "space_looks_max")
    }
    assert not any(errors_of(stand, ask(Nearby((1.0, 1.0), nearest=9)), 4096)), "another frame"
    table = ask(Neighbours(nearest=500, keys=tuple(f"k{number:04}" for number in range(3))))
    assert sum(map(bool, errors_of(stand, table, 50))) > 40


def test_distances_on_planes_cost_nothing_and_on_graphs_what_they_look_at() -> None:
    stand = crowd(1000, space_looks_max=2_000)
    far = ask(Distance((0.0, 0.0), "", (7.0, 7.0), ""))
    stand.done(ask(Nearby((1.0, 1.0), radius=1.0, limit=1)), *[far] * 100)
    line = Graph(500, tuple((node, node + 1, 1.0) for node in range(499)))
    stand.done(new_environment("/line", space=Space(line)))
    asked = ask(Distance((0.0,), "", (499.0,), ""), path="/line")
    assert list(map(bool, errors_of(stand, asked, 20))) == [False] + [True] * 19
