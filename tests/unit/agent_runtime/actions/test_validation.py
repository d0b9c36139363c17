"""What no world could take is refused before it is sent."""

from __future__ import annotations

from typing import Any, cast

import pytest
from ecumene.client import World

from agent_runtime.actions.places import KnownPlaces
from agent_runtime.actions.validation import check_action, check_turn
from agent_runtime.model.actions import TURN_ACTIONS_MAX, Action
from agent_runtime.model.errors import ActionRefusedError
from tests.unit.agent_runtime.fake_world import FakeWorld

SOUND: list[Any] = [1.0, 0, -(2**63), True, None, "text", b"bytes", {"a": [1, None]}, [1, 2]]
UNSOUND: list[Any] = [
    float("nan"),
    float("inf"),
    2**63,
    {"a": float("nan")},
    {1, 2},
    object(),
    "\ud800",
    "x" * (1024 * 1024 + 1),
]


@pytest.mark.parametrize("value", SOUND, ids=repr)
def test_values_that_a_world_has_a_form_for_pass(value: Any) -> None:
    check_action(Action("do", "/a/b", "key", value))


@pytest.mark.parametrize("value", UNSOUND, ids=lambda value: repr(value)[:20])
def test_other_values_are_refused(value: Any) -> None:
    with pytest.raises(ActionRefusedError, match="do"):
        check_action(Action("do", "/a/b", "key", value))


@pytest.mark.parametrize("path", ["", "a", "/a//b", "/a/", "/" + "x" * 129, "/a\n", "/x" * 17, "/e\u0301"])
def test_paths_that_name_nothing_are_refused(path: str) -> None:
    with pytest.raises(ActionRefusedError):
        check_action(Action("do", path, "key", 1.0))


@pytest.mark.parametrize("key", ["", "a/b", "x" * 129, "é" * 65, "a\x00", "\ud800"])
def test_keys_that_name_nothing_are_refused(key: str) -> None:
    with pytest.raises(ActionRefusedError):
        check_action(Action("do", "/a", key, 1.0))


def test_only_numbers_can_be_added() -> None:
    check_action(Action("add", "/a", "n", 2, "increment"))
    with pytest.raises(ActionRefusedError, match="a number"):
        check_action(Action("add", "/a", "n", "2", "increment"))


def test_a_position_is_one_or_two_numbers_or_none() -> None:
    for position in ([1.5], [1, 2], None):
        check_action(Action("move", "/a", "k", position, "move"))
    for wrong in ([], [1, 2, 3], [True], ["1"], [float("inf")], {"x": 1}, 1.0, "home"):
        with pytest.raises(ActionRefusedError, match="a position"):
            check_action(Action("move", "/a", "k", wrong, "move"))


def test_a_turn_has_a_bound_of_actions() -> None:
    actions = [Action("do", "/a", str(number), 1.0) for number in range(TURN_ACTIONS_MAX)]
    check_turn(actions)
    with pytest.raises(ActionRefusedError, match="125"):
        check_turn([*actions, actions[0]])


async def test_an_environment_is_asked_for_once_and_an_absent_one_each_time() -> None:
    world = FakeWorld()
    places = KnownPlaces(cast(World, world))
    await places.find("do", "/game")
    await places.find("do", "/game")
    assert (world.describes, places.knows("/game")) == (1, True)
    for _ in range(2):
        with pytest.raises(ActionRefusedError, match="no environment /moon"):
            await places.find("do", "/moon")
    assert world.describes == 3
