"""Prompts of backgrounds: what they must hold, and what is asked by them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent_runtime.agents.ready.backgrounds import BackgroundAnswer, BackgroundPromptError, load_background_prompt

PROMPT = {
    "name": "p",
    "version": 1,
    "rules": "Write in $language.",
    "person": "Person: $attributes",
    "repair": "Lacks $missing",
    "apart": "Not like $other",
}


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"person": "Nobody"}, r"person has to use \$attributes"),
        ({"rules": "$attributes"}, r"rules may not use \$attributes"),
        ({"repair": "5 $"}, "repair has a stray"),
        ({"apart": None}, "apart"),
        ({"extra": "x"}, "extra"),
    ],
)
def test_what_is_wrong_with_a_prompt_is_told_in_one_line(changed: dict[str, Any], told: str) -> None:
    with pytest.raises(BackgroundPromptError, match=told) as caught:
        load_background_prompt(PROMPT | changed)
    assert "\n" not in str(caught.value)


def test_an_unknown_prompt_names_those_that_are_there() -> None:
    with pytest.raises(BackgroundPromptError, match="not installed; there are background-1, background-1-german"):
        load_background_prompt("no-such")
    for name in ("background-1", "background-1-german"):
        assert load_background_prompt(name).name == name


def test_values_are_told_as_they_are() -> None:
    prompt = load_background_prompt(PROMPT)
    rules, person = prompt.ask({"job": "$rules $$ {x}", "city": "東京"}, "日本語", other="$100")
    assert rules.content == "Write in 日本語."
    assert person.content == 'Person: {"job": "$rules $$ {x}", "city": "東京"}\n\nNot like $100'
    assistant, user = prompt.ask_again(BackgroundAnswer(name="A", background="b"), {"x": 1, "y": 2}, ["y"], "en")
    assert json.loads(assistant.content) == {"name": "A", "background": "b"}
    assert user.content == 'Lacks {"y": 2}'


def test_a_text_names_its_person_once() -> None:
    assert BackgroundAnswer(name="Ann Lee", background="Ann  Lee\nfarms.").text == "Ann Lee farms."
    assert BackgroundAnswer(name="Ann Lee", background="She farms.").text == "Ann Lee. She farms."
    assert BackgroundAnswer(name=" ", background=" She farms.").text == "She farms."
