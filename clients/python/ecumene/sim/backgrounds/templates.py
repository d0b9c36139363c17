"""Texts that are put together from sentences: no model is asked, and each attribute is told by construction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ecumene.sim.backgrounds.languages import find_language
from ecumene.sim.backgrounds.people import Person
from ecumene.sim.populations.streams import Numbers, draw_uniform
from ecumene.sim.populations.telling import write_name, write_value
from ecumene.sim.specs.backgrounds import BackgroundsSpec
from ecumene.sim.specs.placeholders import fill

STREAM = "background"


def put_together(spec: BackgroundsSpec, people: Sequence[Person], seed: int) -> Iterator[str]:
    """A text for each person, in their order. Of which sentences it is made follows from the seed and the place of the
    person in the population alone."""
    if not people:
        return
    places = np.array([person.place for person in people])
    if spec.texts:
        for person, chosen in zip(people, _choose(seed, "text", places, len(spec.texts)), strict=True):
            yield fill(spec.texts[chosen], {name: write_value(value) for name, value in person.attributes.items()})
        return
    language = find_language(spec.language)
    sentences = {name: language.find_sentences(name) for name in people[0].attributes}
    chosen_ones = [_choose(seed, name, places, len(some)) for name, some in sentences.items()]
    for row, person in enumerate(people):
        told = [
            fill(some[chosen[row]], {"name": write_name(name), "value": write_value(person.attributes[name])})
            for (name, some), chosen in zip(sentences.items(), chosen_ones, strict=True)
        ]
        yield " ".join(told)


def _choose(seed: int, what: str, places: Numbers, count: int) -> Numbers:
    return (draw_uniform(seed, f"{STREAM}/{what}", places) * count).astype(np.int64)
