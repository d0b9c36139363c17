"""What is wrong with a spec, by field."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from ecumene.client.errors import EcumeneError
from ecumene.sim.specs.section import TAG
from ecumene.sim.specs.yaml_reading import Lines, find_line

_SHOWN_MAX = 10
_GIVEN_CHARS_MAX = 60
_QUOTED = re.compile(r"'([^']+)'")
_LENGTH = re.compile(r"(?:Tuple|List|Dictionary|String) should have at least (\d+) (items?|characters?).*?(\d+)?$")
_ASIDES = re.compile(r" or instance of \w+|, (unable to|got) .*")
_WORDS = (
    ("a valid dictionary", "a mapping"),
    ("a valid integer", "a whole number"),
    ("a valid number", "a number"),
    ("a valid string", "text"),
    ("a valid tuple", "a list"),
    ("a valid boolean", "true or false"),
    ("greater than or equal to", "at least"),
    ("less than or equal to", "at most"),
    ("greater than", "more than"),
)


@dataclass(frozen=True, slots=True)
class SpecProblem:
    """One problem: the path of the field, such as `population.groups[2].share`, what is wrong, and where it stands."""

    path: str
    message: str
    line: int | None = None
    """Of the file, from 1; None if it has none."""

    def __str__(self) -> str:
        place = "" if self.line is None else f"line {self.line}: "
        return f"{place}{self.path}: {self.message}" if self.path else f"{place}{self.message}"


class SpecError(EcumeneError):
    """A spec that cannot be run. `problems` holds all that is wrong, the message the first."""

    exit_code = 2

    def __init__(self, source: str, problems: Sequence[SpecProblem]) -> None:
        super().__init__(f"{source}: {problems[0]}")
        self.source = source
        self.problems = tuple(problems)

    @property
    def hint(self) -> str:
        """The other problems, for a terminal; empty if there is one."""
        others = [f"also {problem}" for problem in self.problems[1:_SHOWN_MAX]]
        left_out = len(self.problems) - _SHOWN_MAX
        return "\n  ".join([*others, *([f"and {left_out} more"] if left_out > 0 else [])])


def list_problems(error: ValidationError, model: type[BaseModel], lines: Lines | None = None) -> list[SpecProblem]:
    """The problems that pydantic found, with exact paths and, for unknown fields, the nearest known one."""
    return [
        SpecProblem(format_path(place), describe(found, model), find_line(lines or {}, place))
        for found in error.errors(include_url=False, include_context=False)
        for place in (find_place(found["loc"]),)
    ]


def find_place(steps: Sequence[int | str]) -> tuple[int | str, ...]:
    """Where in a document an error is, by the steps that pydantic tells."""
    return tuple(step for step in steps if not str(step).startswith(TAG))


def format_path(steps: Sequence[int | str]) -> str:
    """A path as people write it: `groups[2].share`."""
    path = ""
    for step in steps:
        path += f"[{step}]" if isinstance(step, int) else f".{step}"
    return path.removeprefix(".")


def describe(found: Any, model: type[BaseModel]) -> str:
    """One line on one problem."""
    if (least := _LENGTH.match(str(found["msg"]))) is not None:
        return "is empty" if not found["input"] else f"must have {least[1]} {least[2]} or more, not {least[3]}"
    if found["type"] == "extra_forbidden":
        known = list_fields(model, found["loc"][:-1])
        near = difflib.get_close_matches(str(found["loc"][-1]), known, n=1)
        return f"unknown field; did you mean {near[0]}?" if near else f"unknown field; there are {', '.join(known)}"
    if found["type"] == "missing":
        return "is missing"
    message = restate(str(found["msg"]), found["input"])
    if found["type"] == "literal_error":
        near = difflib.get_close_matches(str(found["input"]), _QUOTED.findall(str(found["msg"])), n=1)
        message += f"; did you mean {near[0]}?" if near else ""
    message = message[:1].lower() + message[1:]
    given = repr(found["input"]) if isinstance(found["input"], str) else ""
    return message.replace(given, shorten(given)) if len(given) > _GIVEN_CHARS_MAX else message


def shorten(shown: str) -> str:
    """The beginning of what was given, where all of it would fill the line."""
    return shown if len(shown) <= _GIVEN_CHARS_MAX else shown[:_GIVEN_CHARS_MAX] + "…"


def restate(message: str, given: Any) -> str:
    """What pydantic says, in the words of a spec: what must be, and what was given instead."""
    if message.startswith("String should match pattern"):
        demand = "1 to 40 characters of a-z, 0-9 and -, the first no -"
    elif message.startswith("Input should be "):
        demand = _ASIDES.sub("", message.removeprefix("Input should be "))
    else:
        return message.removeprefix("Value error, ")
    for theirs, ours in _WORDS:
        demand = demand.replace(theirs, ours)
    if not isinstance(given, str | int | float):
        return f"must be {demand}"
    shown = repr(given)
    if demand == "text":
        shown = str(given).lower() if isinstance(given, bool) else shown
        return f'must be text, not {shown}; put it in quotes: "{shown}"'
    return f"must be {demand}, not {shorten(shown)}"


def list_fields(model: type[BaseModel], steps: Sequence[int | str]) -> list[str]:
    """The fields of the model that a path leads to."""
    for step in steps:
        if isinstance(step, str) and step in model.model_fields:
            model = find_model(model.model_fields[step].annotation) or model
    return sorted(model.model_fields)


def find_model(annotation: Any) -> type[BaseModel] | None:
    """The model inside an annotation such as `tuple[GroupSpec, ...]`, or None."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((model for part in get_args(annotation) if (model := find_model(part))), None)
