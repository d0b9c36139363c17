"""What the world keeps of an agent comes back as it was."""

from __future__ import annotations

import json

import pytest
from ecumene.client import Value
from ecumene.client.records import TurnStatus

from agent_runtime.model.actions import Action
from agent_runtime.ownership.agent_states import ACTIONS_CHARS_MAX, AgentState


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


@pytest.mark.parametrize("size", [ACTIONS_CHARS_MAX - 1000, ACTIONS_CHARS_MAX + 1])
def test_actions_that_are_too_large_are_left_out_and_the_memory_stays(size: int) -> None:
    state = make_state("x" * size)
    kept = AgentState.from_document(state.to_document(), 120)
    assert kept.memory == state.memory
    assert (kept.actions is None) == (size > ACTIONS_CHARS_MAX)
