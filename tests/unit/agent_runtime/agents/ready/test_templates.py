"""Templates substitute and do nothing else; a malformed one says where."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from agent_runtime.agents.ready import PromptTemplateError, load_template
from agent_runtime.agents.ready.templates import list_templates

DOCUMENT: dict[str, Any] = {
    "name": "mine",
    "version": 1,
    "answer": "number",
    "parts": {
        "rules": "Win $target_rule.",
        "first_round": "Round $round.",
        "later_round": "Round $round, last $last_winner.",
        "persona": "$persona",
    },
    "messages": [{"role": "system", "parts": ["rules"]}, {"role": "user", "parts": ["round", "persona"]}],
}


def test_every_installed_template_loads_under_its_own_name() -> None:
    assert list_templates() == [f"guess-p{number}" for number in range(1, 8)]
    for name in list_templates():
        assert load_template(name).name == name


def test_a_spec_may_carry_a_template() -> None:
    assert load_template(DOCUMENT).parts["rules"] == "Win $target_rule."


@pytest.mark.parametrize("name", ["guess-p9", "../guess-p1", "", "prompts/guess-p1"])
def test_a_template_that_is_not_installed_is_told_the_installed_ones(name: str) -> None:
    with pytest.raises(PromptTemplateError, match="not installed; there are guess-p1, guess-p2"):
        load_template(name)


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        (("answer",), "poem", "answer: "),
        (("colour",), "blue", "colour: Extra inputs"),
        (("parts", "rules"), "Win $agent_id.", r"parts.rules may not use \$agent_id"),
        (("parts", "rules"), "Win in round $round.", r"parts.rules may not use \$round"),
        (("parts", "first_round"), "Last $last_winner.", r"parts.first_round may not use \$last_winner"),
        (("parts", "rules"), "Win 5 $ each.", "parts.rules has a stray"),
        (("messages",), [{"role": "tool", "parts": ["rules"]}], "messages.0.role: "),
        (("messages",), [{"role": "user", "parts": ["rules"]}], "'round' and 'persona' once each"),
        (("messages",), [{"role": "user", "parts": ["task", "round", "persona"]}], "'task' that does not exist"),
        (("messages",), [{"role": "user", "parts": ["persona", "round", "rules"]}], "the persona last"),
    ],
)
def test_a_malformed_template_says_where(path: tuple[str, ...], value: Any, problem: str) -> None:
    document = copy.deepcopy(DOCUMENT)
    place = document
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    with pytest.raises(PromptTemplateError, match=problem):
        load_template(document)


def test_a_template_without_its_later_round_is_refused() -> None:
    document = copy.deepcopy(DOCUMENT)
    del document["parts"]["later_round"]
    with pytest.raises(PromptTemplateError, match="parts lack later_round"):
        load_template(document)
