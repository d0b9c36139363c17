"""Conversations that no endpoint would take are found before they are sent."""

from __future__ import annotations

import pytest

from agent_runtime.llm import Message, ModelHistoryError, ToolCall
from agent_runtime.llm.histories import check_history

USER, SYSTEM = Message("user", "Go."), Message("system", "Rules.")


def call(*ids: str) -> Message:
    return Message("assistant", "", tuple(ToolCall(one, "look", "{}") for one in ids))


def reply(to: str) -> Message:
    return Message("tool", "seen", (), to)


@pytest.mark.parametrize(
    "messages",
    [
        (USER,),
        (SYSTEM, USER, Message("assistant", "Yes."), USER),
        (USER, call("a"), reply("a")),
        (USER, call("a", "b"), reply("b"), reply("a"), Message("assistant", "Done."), USER, call("a"), reply("a")),
    ],
)
def test_a_paired_history_passes(messages: tuple[Message, ...]) -> None:
    check_history("m", messages)


@pytest.mark.parametrize(
    ("messages", "place"),
    [
        ((), 0),
        ((Message("assistant", "Hi."), USER), 0),
        ((reply("a"),), 0),
        ((USER, Message("assistant", "")), 1),
        ((USER, call("a")), 1),
        ((USER, call("a"), USER), 2),
        ((USER, call("a", "b"), reply("a")), 2),
        ((USER, call("a"), reply("b")), 2),
        ((USER, call("a"), reply("a"), reply("a")), 3),
        ((USER, call("a"), call("b"), reply("a"), reply("b")), 2),
        ((USER, call("a", "a"), reply("a")), 1),
        ((USER, Message("user", "x", (ToolCall("a", "look", "{}"),)), reply("a")), 1),
        ((USER, Message("assistant", "", (ToolCall("a", "look", "not json"),)), reply("a")), 1),
        ((USER, Message("assistant", "", (ToolCall("a", "", "{}"),)), reply("a")), 1),
    ],
)
def test_a_broken_history_is_told_with_its_place(messages: tuple[Message, ...], place: int) -> None:
    with pytest.raises(ModelHistoryError) as caught:
        check_history("m", messages)
    assert caught.value.place == place
    assert caught.value.status == "error"
