"""Prompts: the shared text first, the newest kept, within the bound."""

from __future__ import annotations

import pytest

from agent_runtime.llm import Message, ToolCall
from agent_runtime.llm.histories import check_history
from agent_runtime.llm.prompts import PromptTooLongError, build_messages
from agent_runtime.llm.tokens import estimate_message_tokens


def test_what_is_shared_stands_first_and_the_persona_last() -> None:
    prompts = [
        build_messages(rules="Rules.", round="Round 3.", persona=f"You are {name}.", question="Your number?")
        for name in ("Ann", "Bob", "Anna")
    ]
    shared = "Round 3.\n\nYou are "
    assert prompts[0] == (Message("system", "Rules."), Message("user", "Round 3.\n\nYou are Ann.\n\nYour number?"))
    assert {texts[1].content[: len(shared)] for texts in prompts} == {shared}


def test_empty_parts_are_left_out() -> None:
    assert build_messages(rules="", question="Go?") == (Message("user", "Go?"),)
    assert build_messages(rules="Rules.") == (Message("system", "Rules."),)


def test_the_oldest_memory_goes_first_then_the_oldest_exchange_with_its_replies() -> None:
    history: list[Message] = []
    for number in range(20):
        call = ToolCall(f"c{number}", "look", "{}")
        history += [Message("assistant", "", (call,)), Message("tool", "x" * 60, (), f"c{number}")]
    memory = [f"memory {number} " + "y" * 60 for number in range(20)]
    sizes = []
    for tokens_max in (2000, 600, 400, 200):
        messages = build_messages(
            rules="Rules.", persona="You.", memory=memory, history=history, question="Go?", tokens_max=tokens_max
        )
        check_history("m", messages)
        assert estimate_message_tokens(messages) <= tokens_max
        sizes.append((messages[1].content.count("memory"), len(messages) - 2))
    assert sizes[0] == (20, 40)
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1][0] == 0
    assert messages[-1] == history[-1], "the newest stays"


def test_a_prompt_that_is_too_long_without_them_is_an_error() -> None:
    with pytest.raises(PromptTooLongError, match="50 are allowed"):
        build_messages(rules="x" * 1000, memory=["a"], tokens_max=50)


def test_the_prompts_of_two_thousand_rounds_stay_within_their_budget() -> None:
    memory: list[str] = []
    sizes = []
    for number in range(2000):
        memory.append(f"Round {number}: the winner was {number % 100}.")
        memory = memory[-500:]
        messages = build_messages(rules="R" * 300, round=f"Round {number}.", memory=memory, tokens_max=1000)
        sizes.append(estimate_message_tokens(messages))
    assert max(sizes) <= 1000
    assert max(sizes[1000:]) - min(sizes[1000:]) < 30
