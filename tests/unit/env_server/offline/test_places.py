"""Whoever is where nobody can be is told."""

from __future__ import annotations

from typing import Any

import pytest

from env_server.model.operations import Code, Placed
from env_server.model.spaces import Geo, Graph, Grid, Plane, Space
from env_server.offline.contents import Problems, State
from env_server.offline.places import check_places
from tests.engine import Op, Stand, new_environment, put


def stored() -> State:
    """A world with a space of each shape, as the log tells it."""
    stand = Stand()
    shapes = Grid(4, 4, capacity=1), Plane(0.0, 0.0, 1.0, 1.0), Geo(), Graph(3, capacity=2)
    for number, shape in enumerate(shapes):
        stand.done(new_environment(f"/s{number}", space=Space(shape)), put(f"/s{number}", "nowhere", 1))
        position = (1.0,) if isinstance(shape, Graph) else (1.0, 1.0)
        stand.done(Op(f"/s{number}", "a", Code.PLACE, Placed(1, position)))
    stand.done(new_environment("/none"), put("/none", "a", 1))
    state = State()
    for changes in stand.records():
        state.record(changes)
    state.finish()
    return state


def test_nothing_is_told_of_what_is_as_it_should_be() -> None:
    problems = Problems()
    check_places(stored(), problems)
    assert not problems.count


@pytest.mark.parametrize(
    ("path", "key", "position", "words"),
    [
        ("/none", "a", (1.0, 1.0), "the environment no space"),
        ("/s0", "a", (9.0, 1.0), "is no whole number"),
        ("/s0", "a", (1.0,), "coordinates"),
        ("/s0", "nowhere", (1.0, 1.0), "2 are at"),
        ("/s1", "a", (float("nan"), 0.0), "not finite"),
        ("/s2", "a", (180.0, 0.0), "which is the same"),
        ("/s3", "a", (3.0,), "is no whole number"),
    ],
)
def test_whoever_is_where_nobody_can_be_is_told(path: str, key: str, position: Any, words: str) -> None:
    state, problems = stored(), Problems()
    entries = state.tree.nodes.by_path[path].entries
    entries[key] = entries[key]._replace(position=position)
    check_places(state, problems)
    assert problems.count == 1 and words in problems.told[0].what
