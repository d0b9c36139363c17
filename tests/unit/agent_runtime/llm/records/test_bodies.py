"""What makes requests the same, and how a difference is told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pydantic import BaseModel

from agent_runtime.llm import Message, ModelRequest, Tool, ToolCall
from agent_runtime.llm.records import describe_request, find_differences, hash_request


class Guess(BaseModel):
    number: int


class Wider(BaseModel):
    number: int
    why: str


REQUEST = ModelRequest("a", 1, 0, "m", (Message("system", "Rules."), Message("user", "Pick a number.")), Guess)


def test_who_asks_and_when_is_no_part_of_a_request() -> None:
    other = replace(REQUEST, agent_id="b", turn=9, call=2, attempt=3, phase="plan")
    assert hash_request(describe_request(REQUEST)) == hash_request(describe_request(other))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"temperature": 0.5}, "temperature is 0.5, was None"),
        ({"seed": 7}, "seed is 7, was None"),
        ({"max_tokens": 9}, "max_tokens is 9, was 256"),
        ({"model": "n"}, "model is 'n', was 'm'"),
        ({"answer_type": Wider}, "answer is 'Wider', was 'Guess'"),
        ({"tools": (Tool("look", "Looks.", {"type": "object"}),)}, "tools is another"),
        ({"messages": REQUEST.messages[:1]}, "1 messages, were 2"),
        (
            {"messages": (Message("system", "Rules."), Message("user", "Pick one."))},
            "message 1 differs from character 5",
        ),
        ({"messages": (Message("user", "Rules."), REQUEST.messages[1])}, "message 0 is of role user, was of system"),
        (
            {"messages": (REQUEST.messages[0], replace(REQUEST.messages[1], tool_calls=(ToolCall("c", "x", "{}"),)))},
            "message 1 calls or replies to other tools",
        ),
    ],
)
def test_a_change_is_another_request_and_is_told_without_quoting(change: dict[str, Any], told: str) -> None:
    before, now = describe_request(REQUEST), describe_request(replace(REQUEST, **change))
    assert hash_request(before) != hash_request(now)
    differences = find_differences(before, now)
    assert any(told in difference for difference in differences)
    assert "Pick" not in str(differences)


def test_records_of_another_version_are_told() -> None:
    assert find_differences('[["user", "Pick."]]', describe_request(REQUEST)) == ("the record is of another version",)
