"""All problems of a document at once: also those that a model sees only once its fields are right.

validate ─► problems ─► the wrong fields are taken away ─► validate ─► further problems …
"""

from __future__ import annotations

import copy
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from ecumene.sim.specs.errors import SpecProblem, find_place, list_problems
from ecumene.sim.specs.yaml_reading import Lines, Place

PASSES_MAX = 5
STAND_INS = {"name": "x{}", "agent": "stand_in:Class", "count": "1"}
"""What no section can be without, so that what is behind it can be looked at; a class takes any parameters."""
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
            told = [
                find_place(one["loc"])
                for one in error.errors(include_url=False, include_context=False, include_input=False)
            ]
            new = [(place, problem) for place, problem in zip(told, list_problems(error, model, lines), strict=True)]
            problems += [problem for place, problem in new if not any(is_near(place, other) for other in places)]
            places += told
            mended = [mend(document, place) for place in told]
            if not all(mended):
                break
    problems = [problem for problem in problems if not is_misspelt(problem, problems)]
    return found, sorted(problems, key=lambda problem: problem.line or 0)


def is_near(place: Place, other: Place) -> bool:
    """Whether one of two places is, or holds, the other."""
    shorter = min(len(place), len(other))
    return place[:shorter] == other[:shorter]


def mend(document: Any, place: Place) -> bool:
    """Put a stand-in where a field is wrong, or take it away, or empty a section that is wrong as a whole.

    Whether it changed anything.
    """
    if not place:
        return False
    *above, last = place
    try:
        for step in above:
            document = document[step]
        if last in STAND_INS and isinstance(document, dict):
            stand_in = STAND_INS[last].format("-".join(map(str, above)).lower())
            changed, document[last] = document.get(last) != stand_in, stand_in
            return bool(changed)
        if isinstance(document[last], dict) and document[last]:
            document[last] = {}
        else:
            del document[last]
    except (KeyError, IndexError, TypeError):
        return False
    return True


def is_misspelt(problem: SpecProblem, problems: list[SpecProblem]) -> bool:
    """Whether a field is missing that stands there under a name that is nearly its own."""
    above, dot, last = problem.path.rpartition(".")
    return problem.message == "is missing" and any(
        other.path.rpartition(".")[:2] == (above, dot) and other.message.endswith(f"did you mean {last}?")
        for other in problems
    )
