"""What a run may do to itself, and what makes no sense."""

from typing import Any

import pytest
from ecumene.sim.specs.errors import SpecError
from ecumene.sim.specs.interventions import ConditionSpec
from ecumene.sim.specs.spec import RunSpec, parse_spec

SET = {"set": {"path": "/news", "key": "tax", "value": {"rate": 0.2}}}
RULE = {"name": "rule", "agent": "equilibrium", "count": 1}
ALL = {"groups": ["asked"]}


def make(*interventions: dict[str, Any]) -> RunSpec:
    population = {"groups": [{"name": "asked", "agent": "prompted", "count": 3}, RULE]}
    named = [{"name": f"i{place}", **one} for place, one in enumerate(interventions)]
    return parse_spec({"name": "x", "population": population, "game": {"rounds": 3}, "interventions": named})


def test_a_spec_that_intervenes_comes_back_as_it_was() -> None:
    when = {"entry": {"path": "/news", "key": "tax"}, "above": 3}
    spec = make({"before_round": 2, **SET}, {"when": when, "rules": {"ratio": "1/2"}}, {"after_round": 1, "pause": ALL})
    assert parse_spec(spec.to_document()) == spec
    assert spec.asks


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        (SET, "one of before_round, after_round and when"),
        ({"before_round": 1, "after_round": 1, **SET}, "one of before_round, after_round and when"),
        ({"before_round": 1}, "one of set, delete, rules, tell, pause and resume"),
        ({"before_round": 1, **SET, "pause": ALL}, "one of set, delete, rules, tell, pause and resume"),
        ({"before_round": 4, **SET}, "the game has 3 rounds"),
        ({"after_round": 3, "rules": {"ratio": 1}}, "no round follows"),
        ({"after_round": 3, "pause": ALL}, "no round follows"),
        ({"before_round": 1, "rules": {}}, "give ratio or offset"),
        ({"before_round": 1, "rules": {"ratio": 0}}, "more than 0"),
        ({"before_round": 1, "set": {"path": "/game/reports", "key": "a", "value": 1}}, "is not undone"),
        ({"before_round": 1, "delete": {"path": "/game", "key": "round"}}, "is not undone"),
        ({"before_round": 1, "set": {"path": "/runtime/runs", "key": "a", "value": 1}}, "kept by the runtimes"),
        ({"before_round": 1, "set": {"path": "news", "key": "a", "value": 1}}, "set.path"),
        ({"before_round": 1, "pause": {"groups": ["nobody"]}}, "no group is called 'nobody'"),
        ({"before_round": 1, "pause": {"agents": ["ann"]}}, "no agent of this population is called 'ann'"),
        ({"before_round": 1, "tell": {"text": "a", "groups": ["rule"]}}, "remember nothing"),
        ({"before_round": 1, "tell": {"text": " ", "groups": ["asked"]}}, "tell.text"),
        ({"before_round": 1, "tell": {"text": "a", "groups": []}}, "tell.groups"),
        ({"before_round": 1, "pause": {}}, "give either agents"),
        ({"before_round": 1, "name": "a", **SET}, ""),
        ({"when": {"figure": "mean"}, **SET}, "one of below, above and equals"),
        ({"when": {"below": 2}, **SET}, "either figure or entry"),
        ({"when": {"figure": "mode", "below": 2}, **SET}, "figure"),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_reason(wrong: dict[str, Any], problem: str) -> None:
    with pytest.raises(SpecError) as caught:
        make({"name": "a", "before_round": 1, **SET}, wrong)
    assert problem in str(caught.value)


def test_a_condition_compares() -> None:
    assert ConditionSpec(figure="mean", below=2).holds(1.9)
    assert not ConditionSpec(figure="mean", below=2).holds(2)
    assert ConditionSpec(figure="mean", above=2).holds(2.1)
    assert ConditionSpec(figure="mean", equals=2).holds(2.0)
    assert str(ConditionSpec(figure="mean", below=2)) == "mean below 2"
