"""Texts that are put together from sentences: no model is asked, and each attribute is told by construction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ecumene.sim.backgrounds.languages import find_language
from ecumene.sim.backgrounds.people import Person, write_value
from ecumene.sim.populations.streams import Numbers, draw_uniform
from ecumene.sim.specs.backgrounds import PLACEHOLDER, BackgroundsSpec

STREAM = "background"


def put_together(spec: BackgroundsSpec, people: Sequence[Person], seed: int) -> Iterator[str]:
    """A text for each person, in their order. Of which sentences it is made follows from the seed and the place of the
    person in the population alone."""
    if not people:
        return
    places = np.array([person.place for person in people])
    if spec.texts:
        for person, chosen in zip(people, _choose(seed, "text", places, len(spec.texts)), strict=True):
            yield _fill(spec.texts[chosen], {name: write_value(value) for name, value in person.attributes.items()})
        return
    language = find_language(spec.language)
    sentences = {name: language.find_sentences(name) for name in people[0].attributes}
    chosen_ones = [_choose(seed, name, places, len(some)) for name, some in sentences.items()]
    for row, person in enumerate(people):
        told = [
            _fill(some[chosen[row]], {"name": name.replace("_", " "), "value": write_value(person.attributes[name])})
            for (name, some), chosen in zip(sentences.items(), chosen_ones, strict=True)
        ]
        yield " ".join(told)


def _choose(seed: int, what: str, places: Numbers, count: int) -> Numbers:
    return (draw_uniform(seed, f"{STREAM}/{what}", places) * count).astype(np.int64)


def _fill(text: str, values: dict[str, str]) -> str:
    """At once: a value may hold braces itself."""
    return PLACEHOLDER.sub(lambda found: values[found[1]], text)
