"""What the world keeps of an agent comes back as it was."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest
from ecumene.client import Value, World
from ecumene.client.records import TurnStatus

from agent_runtime.model.actions import Action
from agent_runtime.ownership.agent_states import ACTIONS_CHARS_MAX, AgentState, AgentStates, StateUnreadableError
from tests.unit.agent_runtime.fake_world import FakeWorld


def make_state(*values: Value) -> AgentState:
    actions = tuple(Action("do", "/a", f"k{place}", value) for place, value in enumerate(values))
    costs = {"calls": 2, "attempts": 3, "prompt_tokens": 5, "completion_tokens": 7}
    return AgentState(
        4, 99, TurnStatus.FALLBACK, "why", ["größe"], actions, costs, {"mode": "prompt", "flags": None}, 120
    )


def test_a_state_goes_through_json_unchanged() -> None:
    state = make_state(1.5, 2**62, "x", b"\x00\xff", None, True, {"a": [1]}, [])
    document = json.loads(json.dumps(state.to_document()))
    assert AgentState.from_document(document, 120) == state


MALFORMED: list[Any] = [
    {},
    5,
    "x",
    [],
    {"turn": "x"},
    {"turn": -1},
    {"turn": 2**40},
    {"revision": None},
    {"status": "merry"},
    {"reason": 5},
    {"actions": 5},
    {"actions": [["do", "/a"]]},
    {"actions": [["do", "/a", "k", "set", "bytes", 5]]},
    {"actions": [["do", "/a", "k", "set", "bytes", "no base64!"]]},
    {"actions": [["do", "/a", "k", "dance", "", 1]]},
    {"costs": {"calls": "many"}},
    {"costs": {"calls": -1}},
    {"notes": []},
]


@pytest.mark.parametrize("changed", MALFORMED)
def test_anything_else_in_its_place_is_told_as_such(changed: Any) -> None:
    document = {**make_state(1).to_document(), **changed} if changed and isinstance(changed, dict) else changed
    with pytest.raises(StateUnreadableError, match="revision 120 is none that a runtime has written"):
        AgentState.from_document(document, 120)


async def test_an_agent_whose_state_was_overwritten_is_told_once_and_then_begins_anew() -> None:
    world = FakeWorld()
    world.store("/agents", "ann", {"memory": 5})
    states = AgentStates(cast(World, world), cast(World, world), "/agents")
    with pytest.raises(StateUnreadableError):
        await states.read("ann")
    assert await states.read("ann") is None
    assert await states.read("bob") is None


@pytest.mark.parametrize("size", [ACTIONS_CHARS_MAX - 1000, ACTIONS_CHARS_MAX + 1])
def test_actions_that_are_too_large_are_left_out_and_the_memory_stays(size: int) -> None:
    state = make_state("x" * size)
    kept = AgentState.from_document(state.to_document(), 120)
    assert kept.memory == state.memory
    assert (kept.actions is None) == (size > ACTIONS_CHARS_MAX)
