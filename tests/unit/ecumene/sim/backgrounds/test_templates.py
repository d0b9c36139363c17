"""Texts without a model: whole, the same from the same seed, and of any population."""

from __future__ import annotations

import pytest
from ecumene.sim.backgrounds.people import Person
from ecumene.sim.backgrounds.templates import put_together
from ecumene.sim.populations.population import build_population
from ecumene.sim.specs.backgrounds import BackgroundsSpec

from tests.unit.ecumene.sim.backgrounds.people import make_spec


@pytest.mark.parametrize("language", ["English", "german", "Tok Pisin"])
def test_each_attribute_is_told_in_every_text(language: str, seed: int) -> None:
    spec = make_spec(300, seed=seed, mode="template", language=language)
    population = build_population(spec.population, seed)
    assert population.profiles is not None
    for row in population.profiles.to_pylist():
        for name in ("age", "gender", "city"):
            assert str(row[name]) in row["background"], row


def test_texts_of_ones_own_are_filled_and_drawn_by_the_seed(seed: int) -> None:
    texts = ("{age}|{city}", "{city}|{age}")
    spec = BackgroundsSpec(mode="template", texts=texts)
    people = [Person(place, f"agent-{place}", "a", {"age": 30.5, "city": "{age}"}) for place in range(200)]
    told = list(put_together(spec, people, seed))
    assert set(told) == {"30.5|{age}", "{age}|30.5"}, "values are text, whatever stands in them"
    assert told == list(put_together(spec, people, seed))
    assert told[50:60] == list(put_together(spec, people[50:60], seed)), "whoever else is there"
    assert told != list(put_together(spec, people, seed + 1))
    assert list(put_together(spec, [], seed)) == []
