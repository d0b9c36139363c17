"""What is asked when, and of whom."""

from typing import Any

from ecumene.client.runtime_model import QuestionType
from ecumene.sim.asking.plans import AFTER, BEFORE, Asking, Moment, describe_question, plan_askings
from ecumene.sim.populations.population import Population, build_population
from ecumene.sim.specs.asking import InterviewSpec, QuestionSpec, SurveySpec
from ecumene.sim.specs.population import PopulationSpec

ROUNDS = [Moment("after_round", number) for number in (1, 2, 3)]


def make_population(**counts: int) -> Population:
    groups = [{"name": name, "agent": "prompted", "count": count} for name, count in counts.items()]
    return build_population(PopulationSpec.model_validate({"groups": groups}), 3)


def plan(**more: Any) -> Asking:
    (asking,) = plan_askings(
        [SurveySpec.model_validate({"name": "s", "questions": [{"name": "q", "text": "?"}], **more})], []
    )
    return asking


def interview(**more: Any) -> Asking:
    (asking,) = plan_askings([], [InterviewSpec.model_validate({"name": "i", "questions": ["Why?", "How?"], **more})])
    return asking


def test_a_survey_takes_place_at_its_moments_alone() -> None:
    moments = [BEFORE, *ROUNDS, AFTER]
    told = {
        "before": [BEFORE],
        "after": [AFTER],
        "every_round": ROUNDS,
    }
    for at, expected in told.items():
        assert [moment for moment in moments if plan(at=at).takes_place(moment)] == expected
    some = plan(at={"after_rounds": [1, 3]})
    assert [moment for moment in moments if some.takes_place(moment)] == [ROUNDS[0], ROUNDS[2]]


def test_a_sample_is_the_same_panel_or_a_fresh_one_and_always_the_same_for_a_seed(seed: int) -> None:
    population = make_population(a=300, b=300)
    same, fresh = plan(sample=20), plan(sample=20, panel="fresh")
    first = same.choose_agents(population, seed, ROUNDS[0])
    assert len(set(first)) == 20 and first == sorted(first)
    assert same.choose_agents(population, seed, ROUNDS[1]) == first
    drawn = [fresh.choose_agents(population, seed, moment) for moment in ROUNDS]
    assert drawn == [fresh.choose_agents(population, seed, moment) for moment in ROUNDS]
    assert drawn[0] != drawn[1] != drawn[2]
    assert same.choose_agents(population, seed + 1, ROUNDS[0]) != first
    assert len(plan(sample=1000).choose_agents(population, seed, BEFORE)) == 600


def test_only_the_groups_that_are_named_are_asked(seed: int) -> None:
    population = make_population(a=30, b=5, c=0)
    in_b = set(population.name_rows((population.codes == 1).nonzero()[0]).to_pylist())
    assert set(plan(groups=["b"]).choose_agents(population, seed, BEFORE)) == in_b
    assert set(plan(groups=["b"], sample=3).choose_agents(population, seed, BEFORE)) < in_b
    assert plan(groups=["c"]).choose_agents(population, seed, BEFORE) == []


def test_interviews_take_the_named_agents_or_some_of_each_group(seed: int) -> None:
    population = make_population(a=30, b=1, c=0)
    assert interview(agents=["agent-000004"]).choose_agents(population, seed, AFTER) == ["agent-000004"]
    drawn = interview(per_group=2).choose_agents(population, seed, AFTER)
    assert len(drawn) == 3 == len(set(drawn))
    assert interview(per_group=2).choose_agents(population, seed, BEFORE) == drawn
    assert [question.name for question in interview(per_group=1).questions] == ["q1", "q2"]


def test_a_scale_is_a_whole_number_whose_ends_are_told() -> None:
    spec = QuestionSpec(name="q", text="How much?", type="scale", ends=("not at all", "very much"))
    asked = describe_question(spec)
    assert (asked.type, asked.minimum, asked.maximum) == (QuestionType.INTEGER, 1, 7)
    assert asked.text == "How much? (a whole number from 1 = not at all to 7 = very much)"
    plain = describe_question(QuestionSpec(name="q", text="How much?", type="scale", minimum=0, maximum=10))
    assert plain.text == "How much? (a whole number from 0 to 10)"
