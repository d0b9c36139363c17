"""The estimate of tokens: never far below, corrected by what is reported."""

from __future__ import annotations

import pytest

from agent_runtime.llm import Message, ModelRequest, Tool, ToolCall
from agent_runtime.llm.tokens import (
    TokenEstimator,
    estimate_message_tokens,
    estimate_prompt_tokens,
    estimate_text_tokens,
)


@pytest.mark.parametrize(
    ("text", "tokens"), [("", 0), ("abc", 1), ("abcd", 2), ("é", 1), ("数字", 3), ("ab数", 3), ("\ud800", 2)]
)
def test_the_rule_is_as_documented(text: str, tokens: int) -> None:
    assert estimate_text_tokens(text) == tokens


def test_messages_tools_and_calls_count() -> None:
    plain = (Message("user", "abc"),)
    assert estimate_message_tokens(plain) == 8 + 4 + 1
    called = (*plain, Message("assistant", "", (ToolCall("c", "look", "{}"),)), Message("tool", "abc", (), "c"))
    assert estimate_message_tokens(called) > estimate_message_tokens(plain) + 8
    tool = Tool("look", "Looks around.", {"type": "object"})
    with_tool = ModelRequest("a", 1, 0, "m", plain, tools=(tool,))
    assert estimate_prompt_tokens(with_tool) > estimate_message_tokens(plain) + 4


def test_a_report_above_the_estimate_counts_at_once_one_below_slowly() -> None:
    estimator = TokenEstimator()
    estimator.learn(100, 150)
    assert estimator.correct(100) >= 150
    estimator.learn(100, 50)
    assert estimator.correct(100) > 140
    for _ in range(200):
        estimator.learn(100, 50)
    assert 50 <= estimator.correct(100) <= 53


def test_nonsense_in_reports_is_bounded() -> None:
    estimator = TokenEstimator()
    estimator.learn(100, 0)
    estimator.learn(0, 100)
    assert estimator.factor == 1.0
    estimator.learn(1, 10**9)
    assert estimator.factor == 4.0
