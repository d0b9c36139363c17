"""What a move crosses: edges only, in the order of names, for those whose keys match."""

from __future__ import annotations

from typing import Any

import pytest

from env_server.model.changes import EventType
from env_server.model.errors import Exhausted, InvalidRequest
from env_server.model.limits import Limits
from env_server.model.ports import SpaceIndex
from env_server.model.spaces import Box, Disc, Grid, Position, Proximity, Region, Space
from env_server.space.spaces import open_space
from env_server.state_tree.borders import Borders

LIMITS = Limits()
SHAPE = Grid(20, 20)
HERE, AWAY = (5.0, 5.0), (15.0, 15.0)


def borders_of(space: Space, index: SpaceIndex) -> Borders:
    return Borders(space, index.areas([region.area for region in space.regions]))


def crossed(
    space: Space, others: dict[str, Position], before: Position | None, after: Position | None, key: str = "m"
) -> list[tuple[str, str, Any]]:
    index = open_space(space.shape, LIMITS)
    for name, position in others.items():
        index.put(name, position)
    if before is not None:
        index.put(key, before)
    told = borders_of(space, index).cross(index, key, before, after, LIMITS, lambda count: None)
    return [(EventType(type_).name, one, document.document) for type_, one, document in told]


def test_by_the_names_of_regions_then_of_proximities_then_of_others() -> None:
    space = Space(
        SHAPE,
        (Region("z", Disc(HERE, 1.0)), Region("b", Box(HERE, HERE)), Region("a", Box(AWAY, AWAY))),
        (Proximity("near", 1.0), Proximity("afar", 2.0)),
    )
    others = {"y": (5.0, 6.0), "x": (6.0, 6.0), "w": (15.0, 17.0)}
    assert list(crossed(space, others, AWAY, HERE)) == [
        ("REGION_LEFT", "m", {"region": "a"}),
        ("REGION_ENTERED", "m", {"region": "b"}),
        ("REGION_ENTERED", "m", {"region": "z"}),
        ("PROXIMITY_LEFT", "m", {"proximity": "afar", "other": "w"}),
        ("PROXIMITY_LEFT", "w", {"proximity": "afar", "other": "m"}),
        *[
            (f"PROXIMITY_{what}", one, {"proximity": name, "other": other})
            for name, what, met in (("afar", "ENTERED", "x"), ("afar", "ENTERED", "y"))
            for one, other in (("m", met), (met, "m"))
        ],
        *[
            ("PROXIMITY_ENTERED", one, {"proximity": "near", "other": other})
            for met in ("x", "y")
            for one, other in (("m", met), (met, "m"))
        ],
    ]


def test_what_is_inside_before_and_after_is_told_nothing_of() -> None:
    space = Space(SHAPE, (Region("r", Disc(HERE, 3.0)),), (Proximity("p", 3.0),))
    assert crossed(space, {"o": (6.0, 6.0)}, HERE, (6.0, 5.0)) == []
    assert crossed(space, {"o": (6.0, 6.0)}, AWAY, (16.0, 15.0)) == []
    assert crossed(space, {}, HERE, None) == [("REGION_LEFT", "m", {"region": "r"})]


@pytest.mark.parametrize(
    ("key", "globs", "met"),
    [
        ("wolf1", ("wolf*", "sheep*"), ["sheep1"]),
        ("sheep9", ("wolf*", "sheep*"), ["wolf2"]),
        ("wolf1", ("wolf*", ""), ["grass", "sheep1", "wolf2"]),
        ("grass2", ("wolf*", ""), ["wolf2"]),
        ("wolf1", ("wolf*", "wolf*"), ["wolf2"]),
        ("grass2", ("wolf*", "sheep*"), []),
        ("m", ("", ""), ["grass", "sheep1", "wolf2"]),
    ],
)
def test_one_of_a_pair_matches_one_glob_and_the_other_the_other(
    key: str, globs: tuple[str, str], met: list[str]
) -> None:
    others = {"sheep1": HERE, "wolf2": HERE, "grass": HERE}
    told = crossed(Space(SHAPE, (), (Proximity("p", 1.0, *globs),)), others, None, HERE, key)
    assert [document["other"] for _, one, document in told if one == key] == met
    assert sorted(one for _, one, document in told if document["other"] == key) == met


def test_keys_stand_in_documents_whatever_they_are_made_of() -> None:
    space = Space(SHAPE, (), (Proximity('the "near"', 1.0),))
    assert crossed(space, {'ä"\\': HERE}, None, HERE)[0][2] == {"proximity": 'the "near"', "other": 'ä"\\'}


def test_a_crowd_is_refused_and_the_bound_of_others_stays() -> None:
    index = open_space(SHAPE, LIMITS)
    for number in range(40):
        index.put(f"k{number}", HERE)
    borders = borders_of(Space(SHAPE, (), (Proximity("p", 1.0),)), index)
    looked: list[int] = []
    with pytest.raises(Exhausted):
        borders.cross(index, "m", None, HERE, Limits(move_looks_max=20), looked.append)
    assert index.looks_max == LIMITS.space_looks_max
    told = borders.cross(index, "k1", HERE, None, Limits(move_looks_max=20), looked.append)
    assert len(told) == 2 * 39 and looked[-1] >= 40


def test_all_proximities_together_look_at_no_more() -> None:
    index = open_space(SHAPE, LIMITS)
    for number in range(100):
        index.put(f"k{number}", HERE)
    proximities = tuple(Proximity(f"p{number}", 1.0) for number in range(8))

    def enter(key: str, looks_max: int) -> int:
        limits = Limits(move_looks_max=looks_max)
        borders = borders_of(Space(SHAPE, (), proximities), index)
        return len(borders.cross(index, key, None, HERE, limits, lambda count: None))

    assert enter("m", 2_000) == 8 * 2 * 100
    with pytest.raises(Exhausted) as caught:
        enter("m", 500)
    assert caught.value.metadata["limit"] == "move_looks_max" and caught.value.metadata["proximity"] in ("p3", "p4")


def test_what_a_refused_move_looked_at_is_counted() -> None:
    index = open_space(SHAPE, LIMITS)
    for number in range(1_000):
        index.put(f"k{number}", HERE)
    borders = borders_of(Space(SHAPE, (), (Proximity("p", 1.0),)), index)
    looked: list[int] = []
    with pytest.raises(Exhausted):
        borders.cross(index, "m", None, HERE, Limits(move_looks_max=900), looked.append)
    assert sum(looked) >= 900 - 256


def test_a_malformed_glob_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="key_glob"):
        borders_of(Space(SHAPE, (), (Proximity("p", 1.0, "[a"),)), open_space(SHAPE, LIMITS))


def test_regions_that_are_crossed_beyond_a_few_are_counted() -> None:
    index = open_space(SHAPE, LIMITS)
    many = tuple(Region(f"r{number}", Box((0, 0), (9, 9))) for number in range(100))
    looked: list[int] = []
    few, all_of_them = borders_of(Space(SHAPE, many[:16]), index), borders_of(Space(SHAPE, many), index)
    assert len(few.cross(index, "m", AWAY, HERE, LIMITS, lambda count: None)) == 16 and not few.looks
    assert not few.cross(index, "m", HERE, HERE, LIMITS, looked.append) and not looked
    assert len(all_of_them.cross(index, "m", AWAY, HERE, LIMITS, looked.append)) == 100 and all_of_them.looks
    assert looked[-1] == 4 * 84
    looked.clear()
    told = all_of_them.cross(index, "m", HERE, AWAY, LIMITS, looked.append)
    assert {type_ for type_, *_ in told} == {EventType.REGION_LEFT} and looked == [4 * 84]
    all_of_them.cross(index, "m", HERE, HERE, LIMITS, looked.append)
    assert looked == [4 * 84], "who stays crosses nothing"
