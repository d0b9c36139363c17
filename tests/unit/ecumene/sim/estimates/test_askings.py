"""Who is asked how often follows from the spec; agents that decide by a rule cost nothing."""

from __future__ import annotations

from typing import Any

import pytest
from ecumene.sim.estimates.askings import plan_asked
from ecumene.sim.specs.spec import RunSpec, parse_spec

QUESTIONS = [{"name": "a", "text": "x" * 30}, {"name": "b", "type": "scale", "text": "y" * 30}]
GROUPS = [
    {"name": "some", "agent": "prompted", "count": 30, "models": {"quick": 2, "slow": 1}},
    {"name": "rule", "agent": "random", "count": 10},
]


def make(*surveys: dict[str, Any], interviews: tuple[dict[str, Any], ...] = ()) -> RunSpec:
    """A spec that asks."""
    named = [{"name": f"s{place}", "questions": QUESTIONS, **survey} for place, survey in enumerate(surveys)]
    document = {
        "name": "x",
        "population": {"groups": GROUPS},
        "game": {"rounds": 3},
        "models": {"quick": {}, "slow": {}},
    }
    return parse_spec(document | {"surveys": named, "interviews": list(interviews)})


def count(spec: RunSpec) -> list[dict[str, float]]:
    """For each moment, model -> agents."""
    return [{one.model: one.agents for one in moment} for moment in plan_asked(spec)]


@pytest.mark.parametrize(
    ("at", "moments"), [("before", 1), ("after", 1), ("every_round", 3), ({"after_rounds": [1, 3]}, 2)]
)
def test_all_who_have_a_model_are_asked_at_each_moment(at: Any, moments: int) -> None:
    assert count(make({"at": at})) == [{"quick": 20.0, "slow": 10.0}] * moments


def test_a_sample_is_shared_by_groups_as_expected_and_never_more_than_there_are() -> None:
    assert count(make({"sample": 8})) == [{"quick": 4.0, "slow": 2.0}]
    assert count(make({"sample": 1_000})) == [{"quick": 20.0, "slow": 10.0}]
    assert count(make({"groups": ["rule"]})) == []


def test_interviews_are_of_a_few_of_each_group_or_of_named_agents() -> None:
    few = {"name": "i", "per_group": 3, "questions": ["Why?"], "at": {"after_rounds": [1, 2]}}
    assert count(make(interviews=(few,))) == [{"quick": 2.0, "slow": 1.0}] * 2
    named = {"name": "i", "agents": ["agent-000001", "agent-000002"], "questions": ["Why?"]}
    (moment,) = count(make(interviews=(named,)))
    assert sum(moment.values()) == pytest.approx(2 * 30 / 40)


def test_prompts_grow_with_what_is_remembered_and_questions_are_told_by_kind() -> None:
    first, *_, last = plan_asked(make({"at": "every_round"}))
    assert (first[0].texts, first[0].values) == (1, 1)
    assert last[0].prompt_tokens - first[0].prompt_tokens == pytest.approx(80)
    assert first[0].prompt_tokens > 20  # the questions alone
