"""What is asked for a person: which try, at which temperature, with which seed, and the key that finds its answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np

from ecumene.sim.backgrounds.languages import find_language
from ecumene.sim.backgrounds.people import Person
from ecumene.sim.populations.streams import draw_uniform, mix
from ecumene.sim.specs.backgrounds import BackgroundsSpec
from ecumene.sim.specs.models import ModelSpec
from ecumene.sim.specs.spec import RunSpec

FORMAT = 1
"""Of what is kept: another one is asked for anew."""


@dataclass(frozen=True, slots=True)
class Job:
    """One try to write one person.

    Attributes:
        name: of the agent that writes it.
        tries: which try it is, from 1.
        temperature, seed: of the model; None = the model's own.
        other: the text of somebody to whom it must not be alike; "" = of nobody.
        key: by all that makes the answer.
    """

    person: Person
    name: str
    tries: int
    temperature: float | None
    seed: int | None
    other: str
    key: str

    def to_document(self) -> dict[str, Any]:
        """As the writer takes it."""
        return {"attributes": dict(self.person.attributes), "other": self.other}


class Planner:
    """Makes the jobs of a spec."""

    def __init__(self, spec: RunSpec) -> None:
        """`spec` has backgrounds of mode `model`."""
        assert spec.population.backgrounds is not None
        self.backgrounds: BackgroundsSpec = spec.population.backgrounds
        self.model_name = self.backgrounds.model or next(iter(spec.list_models()))
        self.model: ModelSpec = spec.list_models()[self.model_name]
        self._seed = spec.people_seed
        self.words: Mapping[str, tuple[str, ...]] = _add_words(self.backgrounds)
        self._shared = self._describe_shared()

    @property
    def sends_seeds(self) -> bool:
        """Whether each try has a sampling seed of its own; endpoints that refuse one are told so by the model."""
        return self.model.seed_answers is not False

    def plan(self, person: Person, tries: int, other: str = "") -> Job:
        """A try of a person. It follows from the seed, the person, the try and what it is to differ from alone."""
        place = np.array([person.place])
        stream = f"background/{tries}"
        temperature = None
        if (span := self.backgrounds.temperature) is not None:
            (chance,) = draw_uniform(self._seed, f"{stream}/temperature", place)
            temperature = round(span.low + (span.high - span.low) * float(chance), 3)
        seed = int(mix(self._seed, stream, place)[0] >> np.uint64(33)) if self.sends_seeds else None
        own = [person.agent, person.told, temperature, seed, other, tries]
        text = json.dumps([self._shared, own], ensure_ascii=False)
        key = blake2b(text.encode("utf-8", "replace"), digest_size=16).hexdigest()
        return Job(person, f"{person.agent}.{tries}", tries, temperature, seed, other, key)

    def _describe_shared(self) -> list[Any]:
        backgrounds, model = self.backgrounds, self.model
        asked = [model.provider, model.name, model.answers, model.max_tokens, model.two_call, model.temperature]
        words = {value: list(some) for value, some in self.words.items()}
        return [FORMAT, backgrounds.prompt, backgrounds.language, words, backgrounds.repairs, asked]


def _add_words(backgrounds: BackgroundsSpec) -> dict[str, tuple[str, ...]]:
    known = dict(find_language(backgrounds.language).words)
    for value, words in backgrounds.words.items():
        known[value] = (*known.get(value, ()), *words)
    return known
