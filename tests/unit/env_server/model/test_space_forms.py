"""Every space is the same after it went through its JSON form."""

import json

import pytest

from env_server.model.space_forms import space_form, space_of
from env_server.model.spaces import (
    Box,
    Disc,
    Geo,
    Graph,
    Grid,
    Neighbourhood,
    NodeSet,
    Plane,
    Proximity,
    Region,
    Shape,
    Space,
)

SHAPES: list[Shape] = [
    Grid(3, 4),
    Grid(6, 4, Neighbourhood.HEX, True, 3),
    Plane(-1.5, 0.1, 1e300, 2.0),
    Plane(0.0, 0.0, 1.0, 1.0, True),
    Geo(),
    Graph(3),
    Graph(3, ((0, 1, 1.0), (1, 2, 1.0))),
    Graph(2, ((0, 1, 0.1), (1, 0, 0.0)), True, ("ä", 'b"'), 7),
]
SPACES = [
    Space(
        shape,
        (
            Region("z", Box((0.0, 0.1), (2.0, 3.0))),
            Region("a", Disc((1.0, 2.0), 0.3)),
            Region("n", NodeSet(frozenset((2, 0)))),
        ),
        (Proximity("q", 1.5), Proximity("p", 0.0, "a*", "b?")),
    )
    for shape in SHAPES
] + [Space(shape) for shape in SHAPES]


@pytest.mark.parametrize("space", SPACES)
def test_a_space_survives(space: Space) -> None:
    text = json.dumps(space_form(space), ensure_ascii=False)
    assert space_of(json.loads(text)) == space
    assert space_of(json.loads(json.dumps(space_form(space), sort_keys=True))) == space, "no order is told by objects"
    assert sum(space.weight) >= len(text.encode()) / 4


def test_parts_stand_in_the_order_of_their_names() -> None:
    assert [region.name for region in SPACES[0].regions] == ["a", "n", "z"]
    assert [proximity.name for proximity in SPACES[0].proximities] == ["p", "q"]
