"""What may be asked within a run: questions, moments, and whom."""

from typing import Any

import pytest
from ecumene.sim.specs.errors import SpecError
from ecumene.sim.specs.spec import RunSpec, parse_spec

TEXT = {"name": "why", "text": "Why?"}


def make(**more: Any) -> RunSpec:
    population = {"groups": [{"name": "asked", "agent": "prompted", "count": 3}]}
    return parse_spec({"name": "x", "population": population, "game": {"rounds": 3}} | more)


def survey(**more: Any) -> dict[str, Any]:
    return {"surveys": [{"name": "mood", "questions": [TEXT], **more}]}


def question(**more: Any) -> dict[str, Any]:
    return survey(questions=[{"name": "q", "text": "What?", **more}])


def interview(**more: Any) -> dict[str, Any]:
    return {"interviews": [{"name": "why", "questions": ["Why?"], **more}]}


def test_a_spec_that_asks_comes_back_as_it_was() -> None:
    spec = make(**survey(at={"after_rounds": [1, 3]}, sample=2, panel="fresh"), **interview(per_group=1))
    assert parse_spec(spec.to_document()) == spec
    assert spec.asks and not make().asks


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        (question(type="choice"), "choices are for type choice"),
        (question(choices=["a", "b"]), "choices are for type choice"),
        (question(type="choice", choices=["a", "a"]), "two or more different"),
        (question(minimum=1), "for numbers"),
        (question(type="number", minimum=2, maximum=1), "not below"),
        (question(type="number", minimum=float("nan")), "finite"),
        (question(type="scale", minimum=7), "not below"),
        (question(type="scale", maximum=7.5), "whole"),
        (question(ends=["low", "high"]), "for type scale"),
        (question(text=" "), "is empty"),
        (question(text="é" * 3000), "6,000 bytes"),
        (survey(questions=[TEXT, TEXT]), "same name"),
        (survey(questions=[]), "questions"),
        (survey(panel="fresh"), "needs a sample"),
        (survey(sample=0), "sample"),
        (survey(groups=["nobody"]), "no group is called 'nobody'; there are asked"),
        (survey(at={"after_rounds": [4]}), "the game has 3 rounds, none of number 4"),
        (survey(at={"after_rounds": []}), "after_rounds"),
        (survey(at="sometimes"), "at"),
        ({**survey(name="why"), **interview(per_group=1)}, "another survey or interview"),
        (interview(), "either agents or per_group"),
        (interview(agents=["agent-000001"], per_group=1), "either agents or per_group"),
        (interview(agents=["agent-000001", "agent-000001"]), "named twice"),
        (interview(agents=["agent-000009"]), "no agent of this population is called 'agent-000009'"),
    ],
)
def test_what_cannot_be_asked_is_refused_with_its_reason(wrong: dict[str, Any], problem: str) -> None:
    with pytest.raises(SpecError) as caught:
        make(**wrong)
    assert problem in str(caught.value)


def test_agents_that_decide_by_a_rule_have_nothing_to_remember() -> None:
    groups = [{"name": "asked", "agent": "prompted", "count": 3}, {"name": "rule", "agent": "random", "count": 3}]
    asked = survey(remembered=True)
    assert make(population={"groups": groups}, **asked).surveys[0].remembered
    for population, more in (({"groups": groups[1:]}, {}), ({"groups": groups}, {"groups": ["rule"]})):
        with pytest.raises(SpecError, match=r"surveys\[0\]\.remembered: agents that decide by a rule answer nothing"):
            make(population=population, surveys=[asked["surveys"][0] | more])
