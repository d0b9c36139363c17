"""Keys and chances of tries: the same for the same, others for anything that changes the answer."""

from __future__ import annotations

from typing import Any

import pytest
from ecumene.sim.backgrounds.people import Person
from ecumene.sim.backgrounds.plans import Planner

from tests.unit.ecumene.sim.backgrounds.people import make_spec

ANN = Person(0, "agent-000001", "a", {"age": 30, "city": "東京"})


def test_the_same_is_planned_alike_and_names_its_try(seed: int) -> None:
    one, same = (Planner(make_spec(seed=seed)).plan(ANN, 2, "other") for _ in range(2))
    assert one == same
    assert (one.name, one.tries, one.other) == ("agent-000001.2", 2, "other")
    assert one.to_document() == {"attributes": {"age": 30, "city": "東京"}, "other": "other"}


@pytest.mark.parametrize(
    "changed",
    [
        {"seed": 2},
        {"language": "German"},
        {"repairs": 0},
        {"prompt": "background-1-german"},
        {"words": {"30": ["thirty"]}},
        {"model": {"name": "other"}},
        {"model": {"max_tokens": 7}},
        {"temperature": {"low": 1, "high": 1}},
    ],
)
def test_whatever_changes_an_answer_changes_its_key(changed: dict[str, Any]) -> None:
    assert Planner(make_spec(**changed)).plan(ANN, 1).key != Planner(make_spec()).plan(ANN, 1).key


def test_what_changes_no_answer_keeps_the_key() -> None:
    key = Planner(make_spec()).plan(ANN, 1).key
    for spec in (make_spec(alike=0.9), make_spec(redos=0), make_spec(60), make_spec(model={"in_flight_max": 2})):
        assert Planner(spec).plan(ANN, 1).key == key
    planner = Planner(make_spec())
    older, twin = Person(0, ANN.agent, "a", {"age": 31, "city": "東京"}), Person(1, "agent-000002", "a", ANN.attributes)
    assert len({key, planner.plan(older, 1).key, planner.plan(twin, 1).key, planner.plan(ANN, 2).key}) == 4


def test_temperatures_and_seeds_vary_within_their_bounds() -> None:
    people = [Person(place, f"agent-{place}", "a", {"age": 1}) for place in range(500)]
    jobs = [Planner(make_spec()).plan(person, 1) for person in people]
    temperatures = [job.temperature for job in jobs]
    assert len({job.seed for job in jobs}) == 500
    assert all(0 <= (job.seed or 0) < 2**31 for job in jobs)
    assert 0.7 <= min(temperatures) < 0.75  # type: ignore[type-var]
    assert 1.05 < max(temperatures) <= 1.1  # type: ignore[type-var]
    fixed = Planner(make_spec(temperature=None, model={"seed_answers": False})).plan(ANN, 1)
    assert (fixed.temperature, fixed.seed) == (None, None)
