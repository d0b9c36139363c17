"""Contradictions between reasoning and report: only where both state a number."""

from __future__ import annotations

import pytest

from agent_runtime.llm.answers.contradictions import contradicts, find_stated_number


@pytest.mark.parametrize(
    ("reasoning", "reported"),
    [
        ("2/3 of 50 is 33, so I choose 22.", 33.0),
        ("They will say 33. My number is 22", 50.0),
        ("Final answer: 12.5", 14.0),
        ("I pick 10. No, I will go with 20.", 10.0),
        ("I'd guess about 20", 25.0),
    ],
)
def test_another_number_than_was_decided_on_is_flagged(reasoning: str, reported: float) -> None:
    assert contradicts(reasoning, reported)


@pytest.mark.parametrize(
    ("reasoning", "reported"),
    [
        ("2/3 of 50 is 33, so I choose 22.", 22.0),
        ("Others will choose 50, and half of them 33.", 7.0),
        ("I choose 33", 33.33),
        ("I choose 33.33", 33.0),
        ("I'd guess about 20", 20.5),
        ("My guess is 2/3 of the average", 33.0),
        ("I will say 50% of that", 20.0),
        ("I pick 10. No, I will go with 20.", 20.0),
        ("Everyone thinks hard.", 50.0),
        ("", 50.0),
    ],
)
def test_nothing_is_invented(reasoning: str, reported: float) -> None:
    assert not contradicts(reasoning, reported)


def test_the_last_decision_counts_and_digits_without_end_cost_no_time() -> None:
    assert find_stated_number("I choose 10. So I choose 12.") == 12.0
    assert find_stated_number("I choose " + "9" * 200_000) is None
