"""The published figures agree with each other, and stand beside the runs to which they belong."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
from ecumene.sim.reporting import paper
from ecumene.sim.specs.spec import RunSpec, parse_spec


def make_spec(*groups: dict[str, Any], **game: Any) -> RunSpec:
    """A spec of some groups."""
    named = [{"name": f"g{place}", "agent": "prompted", "count": 2, **group} for place, group in enumerate(groups)]
    return parse_spec({"name": "a", "population": {"groups": named}, "game": game})


def test_two_tables_tell_the_same_of_round_1_and_all_but_one_series_fall() -> None:
    rising = []
    for model, series in paper.FIVE_ROUNDS.items():
        for prompt, means in series.items():
            assert means[0] == paper.FIRST_ROUNDS[model][prompt][0]
            if any(later >= earlier for earlier, later in itertools.pairwise(means)):
                rising.append((model, prompt))
    assert rising == [("Llama3-70B", "P1")]


def test_winning_numbers_of_mixed_models_are_two_thirds_of_their_mean() -> None:
    for *means, winning in paper.MIXED:
        assert winning == pytest.approx(2 / 3 * math.fsum(means) / 3, abs=0.02)


def test_one_condition_differs_by_less_than_the_tolerance_between_tables() -> None:
    apart = abs(paper.TEMPERATURES[1.0][0] - paper.FIRST_ROUNDS["Qwen2-72B"]["P2"][0])
    assert 2 < apart < paper.TOLERANCE


@pytest.mark.parametrize(
    ("published", "recorded", "same"),
    [
        ("Qwen2-72B", "qwen/Qwen2-72B-Instruct", True),
        ("Qwen2-72B", "Qwen2.5-72B-Instruct", False),
        ("Qwen2-7B", "qwen2-72b", False),
        ("Llama3-70B", "Meta-Llama-3-70B-Instruct", True),
        ("Mistral 8x22B", "Mixtral-8x22B-v0.1", True),
        ("Mistral 8x7B", "scripted", False),
    ],
)
def test_a_model_is_known_however_its_name_is_written(published: str, recorded: str, same: bool) -> None:
    assert paper.is_same_model(published, recorded) is same


def test_prompts_are_known_by_the_names_of_their_templates() -> None:
    templates = [{"parameters": {"prompt": "guess-p1"}}, {}, {"agent": "random"}, {"parameters": {"prompt": "mine"}}]
    assert paper.find_prompts(make_spec(*templates)) == {"g0": "P1", "g1": "P2"}


def test_facts_belong_to_the_conditions_of_a_spec() -> None:
    def tell(spec: RunSpec) -> str:
        return "\n".join(f"{fact.condition}: {fact.figure} {fact.value}" for fact in paper.list_facts(spec))

    assert "6.21" in tell(make_spec({}, ratio="1/2"))
    assert "11.85" in tell(make_spec({}, ratio="51/100"))
    assert "6.46" in tell(make_spec({}, ratio="51/100"))
    assert "12.5, 11.25" in tell(make_spec({}, ratio="1/2", offset=5))
    assert "12.76" in tell(make_spec({}))
    cold = [{"parameters": {"temperature": warmth}} for warmth in (0.05, 1)]
    assert "15.42" in tell(make_spec(*cold))
    assert "18.54" not in tell(make_spec(*cold))
    assert "15.42" not in tell(make_spec({}))
    assert "8.24" in tell(make_spec({"name": "primary"}, {"name": "phd"}))
    assert "economists" in tell(make_spec({"persona": "a professor"}, {"persona": "an athlete"}))
    assert "not held" in tell(make_spec({"persona": "You are a seven-year-old."}))
    assert tell(make_spec({}, ratio="4/3")) == ""
