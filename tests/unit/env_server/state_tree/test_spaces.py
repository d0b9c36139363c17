"""Spaces are declared once, their regions and proximities whenever; what is not accepted changes nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from env_server.model.changes import EventType
from env_server.model.errors import Reason, WorldError
from env_server.model.limits import Limits
from env_server.model.operations import Code, EnvironmentUpdate, Placed, Transact, Write
from env_server.model.spaces import Box, Disc, Geo, Graph, Grid, NodeSet, Plane, Proximity, Region, Space
from tests.engine import Op, Stand, drop, new_environment

SPACE = Space(Grid(8, 8), (Region("home", Box((0.0, 0.0), (1.0, 1.0))),), (Proximity("met", 1.0),))


def update(path: str = "/g", **asked: Any) -> Op:
    return Op(path, "", Code.UPDATE_ENVIRONMENT, EnvironmentUpdate(**asked))


def place(key: str, *position: float) -> Op:
    return Op("/g", key, Code.PLACE, Placed(1, tuple(map(float, position))))


def node_of(stand: Stand, path: str = "/g") -> Any:
    return stand.world._tree.nodes.by_path[path]


def crossings(stand: Stand) -> list[str]:
    return [
        EventType(row[1]).name for row in stand.rows() if EventType.REGION_ENTERED <= row[1] <= EventType.PROXIMITY_LEFT
    ]


def test_a_space_may_come_later_and_only_once() -> None:
    stand = Stand()
    stand.done(new_environment("/g"), update(space=SPACE), place("a", 1, 1))
    assert crossings(stand) == ["REGION_ENTERED"]
    assert stand.do(update(space=SPACE)).error.reason is Reason.SPACE_EXISTS
    stand.reopen()
    assert node_of(stand).declaration.space == SPACE
    assert len(node_of(stand).space) == 1


def test_regions_and_proximities_come_and_go_by_name() -> None:
    stand = Stand()
    stand.done(new_environment("/g", space=SPACE), place("a", 5, 5), place("b", 5, 6))
    before = len(crossings(stand))
    stand.done(
        update(set_regions=(Region("new", Box((5.0, 5.0), (6.0, 6.0))),), set_proximities=(Proximity("far", 3.0),))
    )
    assert len(crossings(stand)) == before, "those inside already are told nothing"
    stand.done(place("a", 7, 7))
    assert crossings(stand)[before:] == ["REGION_LEFT", "PROXIMITY_LEFT", "PROXIMITY_LEFT"], "they leave all the same"
    stand.done(update(set_regions=(Region("home", Disc((7.0, 7.0), 1.0)),), remove_regions=("new",)))
    stand.done(update(remove_proximities=("met", "far")))
    names = [part.name for part in node_of(stand).declaration.space.regions]
    assert names == ["home"] and not node_of(stand).declaration.space.proximities
    live = node_of(stand).declaration
    stand.reopen()
    assert node_of(stand).declaration == live
    stand.done(place("a", 2, 2))
    assert crossings(stand)[-1] == "REGION_LEFT"


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ({"remove_regions": ("nowhere",)}, Reason.REGION_NOT_FOUND),
        ({"remove_proximities": ("home",)}, Reason.REGION_NOT_FOUND),
        ({"set_regions": (Region("met", Box((0.0, 0.0), (1.0, 1.0))),)}, Reason.INVALID_FIELD),
        ({"set_regions": (Region("x", Box((0.0, 0.0), (9.0, 1.0))),)}, Reason.INVALID_POSITION),
        ({"set_regions": (Region("x", NodeSet(frozenset((1,)))),)}, Reason.INVALID_FIELD),
        ({"set_regions": (Region("a/b", Box((0.0, 0.0), (1.0, 1.0))),)}, Reason.INVALID_FIELD),
        ({"set_proximities": (Proximity("x", -1.0),)}, Reason.INVALID_FIELD),
        ({"set_proximities": (Proximity("x", float("inf")),)}, Reason.INVALID_FIELD),
        ({"set_proximities": (Proximity("x", 1.0, "[a"),)}, Reason.INVALID_FIELD),
        ({"set_proximities": (Proximity("x", 1.0, "a" * 401),)}, Reason.LIMIT_EXCEEDED),
        ({"set_proximities": tuple(Proximity(f"x{n}", 1.0) for n in range(17))}, Reason.LIMIT_EXCEEDED),
    ],
)
def test_an_update_that_is_not_accepted_changes_nothing(asked: dict[str, Any], reason: Reason) -> None:
    stand = Stand()
    stand.done(new_environment("/g", space=SPACE))
    before, revision = node_of(stand).declaration, stand.world.revision
    assert stand.do(update(**asked)).error.reason is reason
    assert node_of(stand).declaration is before and stand.world.revision == revision


@pytest.mark.parametrize(("asked", "kind"), [("remove_regions", "region"), ("remove_proximities", "proximity")])
def test_what_is_not_there_is_called_what_it_is(asked: str, kind: str) -> None:
    stand = Stand()
    stand.done(new_environment("/g", space=SPACE))
    refused = stand.do(update(**{asked: ("nope",)})).error
    assert str(refused) == f"no such {kind}: path '/g', {kind} 'nope'"


def test_without_a_space_there_are_no_regions() -> None:
    stand = Stand()
    stand.done(new_environment("/g"))
    asked = update(set_regions=(Region("x", Box((0.0, 0.0), (1.0, 1.0))),))
    assert stand.do(asked).error.reason is Reason.SPACE_NOT_FOUND
    stand.done(update(space=Space(Grid(8, 8)), set_regions=(Region("x", Box((0.0, 0.0), (1.0, 1.0))),)))
    assert [region.name for region in node_of(stand).declaration.space.regions] == ["x"]


@pytest.mark.parametrize(
    ("space", "reason"),
    [
        (Space(Grid(0, 4)), Reason.INVALID_FIELD),
        (Space(Plane(1.0, 0.0, 0.0, 1.0)), Reason.INVALID_FIELD),
        (Space(Graph(2, ((0, 5, 1.0),))), Reason.INVALID_FIELD),
        (Space(Geo(), (Region("r", Disc((0.0, 91.0), 1.0)),)), Reason.INVALID_POSITION),
        (Space(Graph(2, ((0, 1, 1.0),), directed=True), (), (Proximity("p", 1.0),)), Reason.INVALID_FIELD),
        (Space(Graph(60_000, tuple((n, n + 1, 1.0) for n in range(50_000)))), Reason.LIMIT_EXCEEDED),
    ],
)
def test_a_space_that_is_none_is_refused(space: Space, reason: Reason) -> None:
    stand = Stand()
    assert stand.do(new_environment("/g", space=space)).error.reason is reason
    stand.done(new_environment("/g"))
    before = node_of(stand).declaration
    assert stand.do(update(space=space)).error.reason is reason
    assert node_of(stand).declaration is before and node_of(stand).space is None


def test_a_transaction_that_fails_takes_declarations_back() -> None:
    stand = Stand()
    stand.done(new_environment("/g", space=SPACE), new_environment("/later"), place("a", 1, 1))
    writes = (
        Write("/g", "", Code.UPDATE_ENVIRONMENT, EnvironmentUpdate(remove_regions=("home",))),
        Write("/later", "", Code.UPDATE_ENVIRONMENT, EnvironmentUpdate(space=SPACE)),
        Write("/later", "x", Code.PLACE, Placed(1, (1.0, 1.0))),
        Write(*drop("/g", "nobody")[:4]),
    )
    assert stand.do(Op("/", "", Code.TRANSACT, Transact((), writes))).error.reason is Reason.ENTRY_NOT_FOUND
    later = node_of(stand, "/later")
    assert later.space is None and later.declaration.space is None and later.borders is None and not later.entries
    before = len(crossings(stand))
    stand.done(place("a", 5, 5))
    assert crossings(stand)[before:] == ["REGION_LEFT"], "the region is there again"
    stand.done(update("/later", space=SPACE))


def test_rows_that_repeat_a_large_space_are_bounded() -> None:
    graph = Graph(30_000, tuple((n, n + 1, 1.0) for n in range(29_000)))
    stand = Stand(limits=replace(Limits(), group_repeated_bytes_max=1_000_000))
    stand.done(new_environment("/g", space=Space(graph)))
    sent = stand.do(*(update(set_labels=(("n", str(n)),)) for n in range(6)))
    reasons = [getattr(sent.outcome(index), "reason", None) for index in range(6)]
    assert reasons[0] is None and reasons[-1] is Reason.RATE_LIMITED


def test_a_region_without_an_end_is_refused_since_no_document_could_tell_of_it() -> None:
    stand = Stand()
    endless = Region("all", Disc((1.0, 1.0), float("inf")))
    assert stand.do(new_environment("/g", space=Space(Grid(8, 8), (endless,)))).error.reason is Reason.INVALID_FIELD
    stand.done(new_environment("/g", space=SPACE))
    assert stand.do(update(set_regions=(endless,))).error.reason is Reason.INVALID_FIELD


def test_graphs_and_discs_of_one_frame_are_bounded_together() -> None:
    stand = Stand(limits=Limits(group_looks_max=6_000))
    line = tuple((node, node + 1, 1.0) for node in range(900))
    sent = stand.do(*(new_environment(f"/g{number}", space=Space(Graph(901, line))) for number in range(6)))
    outcomes = [sent.outcome(number) for number in range(6)]
    assert [isinstance(one, WorldError) and one.reason is Reason.RATE_LIMITED for one in outcomes] == [
        *[False] * 3,
        *[True] * 3,
    ]
    discs = [update("/g0", set_regions=(Region("d", Disc((400.0,), float(size))),)) for size in range(300, 306)]
    sent = stand.do(*discs)
    assert [isinstance(sent.outcome(number), WorldError) for number in range(6)] == [*[False] * 4, *[True] * 2]
    assert len(node_of(stand, "/g0").declaration.space.regions) == 1


LINE = Graph(901, tuple((node, node + 1, 1.0) for node in range(900)))
DISC = Region("d", Disc((400.0,), 300.0))


def step(node: int) -> Op:
    return Op("/g", "a", Code.PLACE, Placed(1, (float(node),)))


def is_refused(outcome: object) -> bool:
    return isinstance(outcome, WorldError) and outcome.reason is Reason.RATE_LIMITED


def test_what_regions_cover_outlives_a_transaction_that_fails() -> None:
    stand = Stand()
    stand.done(new_environment("/g", space=Space(LINE, (DISC,))), step(50))
    before = node_of(stand).borders
    assert before.areas.is_ready
    writes = (
        Write("/g", "", Code.UPDATE_ENVIRONMENT, EnvironmentUpdate(remove_regions=("d",))),
        Write("/g", "", Code.UPDATE_ENVIRONMENT, EnvironmentUpdate(set_regions=(Region("e", Disc((1.0,), 5.0)),))),
        Write("/g", "a", Code.MOVE, (2.0,)),
        Write(*drop("/g", "nobody")[:4]),
    )
    assert stand.do(Op("/", "", Code.TRANSACT, Transact((), writes))).error.reason is Reason.ENTRY_NOT_FOUND
    assert node_of(stand).borders is before
    told = len(crossings(stand))
    stand.done(step(150), step(2))
    assert crossings(stand)[told:] == ["REGION_ENTERED", "REGION_LEFT"]
    stand.done(update(set_regions=(Region("e", Disc((1.0,), 5.0)),)))
    assert node_of(stand).borders.areas.looked < 100, "the disc that stays is not walked again"


def test_what_regions_cover_is_found_again_at_the_cost_of_who_first_moves_after_a_restart() -> None:
    stand = Stand(limits=Limits(group_looks_max=2_000))
    discs = tuple(Region(f"d{number}", Disc((400.0 + number,), 300.0)) for number in range(3))
    stand.done(new_environment("/g", space=Space(LINE)))
    for disc in discs:
        stand.done(update(set_regions=(disc,)))
    stand.done(step(50))
    stand.reopen()
    assert not node_of(stand).borders.areas.is_ready
    sent = stand.do(step(450), step(451), update(set_regions=(Region("e", Disc((1.0,), 5.0)),)))
    assert [is_refused(sent.outcome(index)) for index in range(3)] == [False, False, True]
    assert crossings(stand)[-3:] == ["REGION_ENTERED"] * 3
    assert node_of(stand).borders.areas.is_ready


def test_looks_for_what_is_refused_in_the_end_are_counted() -> None:
    stand = Stand(limits=Limits(group_looks_max=2_000, space_looks_max=2_000))
    stand.done(new_environment("/g", space=Space(LINE)))
    too_far = tuple(Region(f"d{number}", Disc((400.0 + number,), 300.0)) for number in range(2))
    sent = stand.do(*[update(set_regions=too_far)] * 3)
    reasons = [getattr(sent.outcome(index), "reason", None) for index in range(3)]
    assert reasons[0] is Reason.LIMIT_EXCEEDED and reasons[2] is Reason.RATE_LIMITED
    wrong = {"regions": (DISC,), "proximities": (Proximity("p", 1.0, "[a"),)}
    sent = stand.do(*[new_environment("/h", space=Space(LINE, **wrong))] * 9)
    assert sent.error.reason is Reason.INVALID_FIELD
    assert is_refused(sent.outcome(8))


def test_declarations_of_many_regions_are_bounded_together_also_refused_ones() -> None:
    stand = Stand(limits=Limits(group_looks_max=5_000))
    regions = tuple(Region(f"r{number}", Disc((4.0, 4.0), 1.0)) for number in range(100))
    stand.done(new_environment("/g", space=Space(Grid(8, 8), regions)))
    for area, reason in ((Disc((1.0, 1.0), 1.0), None), (Disc((9.0, 9.0), 1.0), Reason.INVALID_POSITION)):
        sent = stand.do(*[update(set_regions=(Region("r1", area),))] * 20)
        reasons = [getattr(sent.outcome(index), "reason", None) for index in range(20)]
        assert reasons[0] is reason and reasons[-1] is Reason.RATE_LIMITED
        assert reasons == sorted(reasons, key=lambda one: one is Reason.RATE_LIMITED), "a few, then no more"
    sent = stand.do(*[update(set_regions=(Region("n", NodeSet(frozenset((1,)))),))] * 20)
    assert is_refused(sent.outcome(19))
