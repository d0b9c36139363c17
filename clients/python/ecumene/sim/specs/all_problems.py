"""All problems of a document at once: also those that a model sees only once its fields are right.

    validate ─► problems ─► the wrong fields are taken away ─► validate ─► further problems …
"""

from __future__ import annotations

import copy
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from ecumene.sim.specs.errors import SpecProblem, list_problems
from ecumene.sim.specs.yaml_reading import Lines, Place

PASSES_MAX = 5
Model = TypeVar("Model", bound=BaseModel)


def find_problems(
    document: Any, model: type[Model], lines: Lines | None = None
) -> tuple[Model | None, list[SpecProblem]]:
    """The problems of a document, in the order of its lines, and what it describes.

    With problems that is what is left without the wrong fields, for further checks; None if too little is left. Nothing
    is told of a field twice, nor of what holds one that is wrong: that may be what is wrong with it.
    """
    places: list[Place] = []
    problems: list[SpecProblem] = []
    found: Model | None = None
    document = copy.deepcopy(document)
    for _ in range(PASSES_MAX):
        try:
            found = model.model_validate(document)
            break
        except ValidationError as error:
            told = [tuple(one["loc"]) for one in error.errors(include_url=False, include_context=False, include_input=False)]
            new = [(place, problem) for place, problem in zip(told, list_problems(error, model, lines), strict=True)]
            problems += [problem for place, problem in new if not any(is_near(place, other) for other in places)]
            places += told
            if not all([take_away(document, place) for place in told]):
                break
    return found, sorted(problems, key=lambda problem: problem.line or 0)


def is_near(place: Place, other: Place) -> bool:
    """Whether one of two places is, or holds, the other."""
    shorter = min(len(place), len(other))
    return place[:shorter] == other[:shorter]


def take_away(document: Any, place: Place) -> bool:
    """Take a field out of a document, or empty a section that is wrong as a whole; whether it changed anything."""
    if not place:
        return False
    *above, last = place
    try:
        for step in above:
            document = document[step]
        if isinstance(document[last], dict) and document[last]:
            document[last] = {}
        else:
            del document[last]
    except (KeyError, IndexError, TypeError):
        return False
    return True
