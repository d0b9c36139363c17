"""Prompts of prompted agents: JSON, with substitution and nothing else.

    {"name": …, "version": 1,
     "rules": "… $town …",            the same for all agents of a group: what the group's `values` hold
     "situation": "… $events …",      also $observation, $round, $time: what the turn is about
     "persona": "… $persona …",       also $id
     "question": "…"}                 also $round

They are told in this order, so that what many agents share stands first. What they remember stands between persona and
question.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from importlib import resources
from string import Template
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

_OWN_NAMES = {
    "rules": frozenset[str](),
    "situation": frozenset({"events", "observation", "round", "time"}),
    "persona": frozenset({"persona", "id"}),
    "question": frozenset({"round"}),
}
OWN_NAMES = frozenset().union(*_OWN_NAMES.values())
"""What a template may use without the group giving it."""


class SceneTemplateError(ValueError):
    """A template that is absent or malformed."""


class SceneTemplate(BaseModel):
    """A checked template."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, Field(min_length=1, max_length=80)]
    version: Annotated[int, Field(ge=1)]
    rules: str
    situation: str = "$events\n\n$observation"
    persona: str = "$persona"
    question: str = ""

    @model_validator(mode="after")
    def _check(self) -> Self:
        for part, own in _OWN_NAMES.items():
            template = Template(getattr(self, part))
            if not template.is_valid():
                raise ValueError(f"{part} has a stray '$' (write '$$' for a dollar sign)")
            if misplaced := set(template.get_identifiers()) & (OWN_NAMES - own):
                raise ValueError(f"{part} may not use ${', $'.join(sorted(misplaced))}")
        return self

    def find_values(self) -> frozenset[str]:
        """Names that the group's `values` must give."""
        names = (Template(getattr(self, part)).get_identifiers() for part in _OWN_NAMES)
        return frozenset(name for found in names for name in found) - OWN_NAMES

    def fill(self, part: str, values: Mapping[str, str]) -> str:
        """A part with its values. Whatever stands in a value is text: no `$` in it is substituted."""
        return _compile(getattr(self, part)).substitute(values)


def load_scene_template(source: str | Mapping[str, Any]) -> SceneTemplate:
    """An installed template by its name, or one that a launch description carries.

    Raises SceneTemplateError.
    """
    if isinstance(source, Mapping):
        return _read(str(source.get("name", "in the description")), source)
    folder = resources.files(__package__).joinpath("prompts")
    installed = {entry.name.removesuffix(".json") for entry in folder.iterdir() if entry.name.endswith(".json")}
    if source not in installed:
        raise SceneTemplateError(f"prompt {source} is not installed; there are {', '.join(sorted(installed))}")
    return _read(source, json.loads(folder.joinpath(f"{source}.json").read_text(encoding="utf-8")))


def _read(name: str, document: Any) -> SceneTemplate:
    try:
        return SceneTemplate.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        message = first["msg"].removeprefix("Value error, ")
        raise SceneTemplateError(f"prompt {name}: {place + ': ' if place else ''}{message}") from error


@lru_cache(maxsize=256)
def _compile(text: str) -> Template:
    return Template(text)
