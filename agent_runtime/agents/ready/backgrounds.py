"""What a model is asked that writes who a person is, and what it answers. Without I/O.

A prompt is a JSON document, with substitution and nothing else:

    {"name": …, "version": 1,
     "rules": "… $language …",        the same for all people
     "person": "… $attributes …",     a JSON object
     "repair": "… $missing …",        when a text lacks some of them
     "apart": "… $other …"}           when a text was too much like another person's
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib import resources
from string import Template
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from agent_runtime.agents.ready.echoes import Value
from agent_runtime.llm.requests import Message

FOLDER = "background_prompts"
_NAMES = {"rules": {"language"}, "person": {"attributes"}, "repair": {"missing"}, "apart": {"other"}}
_SHARED = frozenset({"language"})
"""What every part may use."""


class BackgroundAnswer(BaseModel):
    """Who a person is, in a model's words."""

    model_config = ConfigDict(frozen=True)

    name: str
    background: str

    @property
    def text(self) -> str:
        """The background, which names the person."""
        name, told = " ".join(self.name.split()), " ".join(self.background.split())
        return told if not name or name.casefold() in told.casefold() else f"{name}. {told}".strip()


class BackgroundPromptError(ValueError):
    """A prompt that is absent or malformed."""


class BackgroundPrompt(BaseModel):
    """A checked prompt."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, Field(min_length=1, max_length=80)]
    version: Annotated[int, Field(ge=1)]
    rules: str
    person: str
    repair: str
    apart: str

    @model_validator(mode="after")
    def _check(self) -> Self:
        for part, own in _NAMES.items():
            template = Template(getattr(self, part))
            if not template.is_valid():
                raise ValueError(f"{part} has a stray '$' (write '$$' for a dollar sign)")
            used = set(template.get_identifiers())
            if unknown := used - own - _SHARED:
                raise ValueError(f"{part} may not use ${', $'.join(sorted(unknown))}")
            if lacking := own - used - _SHARED:
                raise ValueError(f"{part} has to use ${', $'.join(sorted(lacking))}")
        return self

    def ask(self, attributes: Mapping[str, Value], language: str, other: str = "") -> tuple[Message, ...]:
        """What to ask for one person; `other`: the text of somebody to whom it must not be alike."""
        told = json.dumps(dict(attributes), ensure_ascii=False)
        person = _fill(self.person, language, attributes=told)
        if other:
            person = f"{person}\n\n{_fill(self.apart, language, other=other)}"
        return Message("system", _fill(self.rules, language)), Message("user", person)

    def ask_again(
        self, answer: BackgroundAnswer, attributes: Mapping[str, Value], missing: Sequence[str], language: str
    ) -> tuple[Message, ...]:
        """What to say after an answer that lacks some attributes."""
        told = json.dumps({name: attributes[name] for name in missing}, ensure_ascii=False)
        said = json.dumps(answer.model_dump(), ensure_ascii=False)
        return Message("assistant", said), Message("user", _fill(self.repair, language, missing=told))


def load_background_prompt(source: str | Mapping[str, Any]) -> BackgroundPrompt:
    """An installed prompt by its name, or one that a description carries. Raises BackgroundPromptError."""
    if isinstance(source, Mapping):
        return _read(str(source.get("name", "in the description")), source)
    folder = resources.files(__package__).joinpath(FOLDER)
    installed = {entry.name.removesuffix(".json") for entry in folder.iterdir() if entry.name.endswith(".json")}
    if source not in installed:
        raise BackgroundPromptError(f"prompt {source} is not installed; there are {', '.join(sorted(installed))}")
    return _read(source, json.loads(folder.joinpath(f"{source}.json").read_text(encoding="utf-8")))


def _read(name: str, document: Any) -> BackgroundPrompt:
    try:
        return BackgroundPrompt.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        message = first["msg"].removeprefix("Value error, ")
        raise BackgroundPromptError(f"prompt {name}: {place + ': ' if place else ''}{message}") from error


def _fill(text: str, language: str, **values: str) -> str:
    return Template(text).substitute(values, language=language)
