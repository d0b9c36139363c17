"""Prompt templates: JSON, with substitution and nothing else.

A template has named parts and says which parts make which message. Parts that are the same for all
agents come first, what differs by agent (the persona) last, so that an endpoint can cache the prefix.

    {"name": …, "version": 1, "answer": "number" | "reasoning_and_number",
     "parts": {"rules": "… $target_rule …", "first_round": …, "later_round": "… $last_winner …", …},
     "messages": [{"role": "system", "parts": ["rules", …]}, {"role": "user", "parts": ["round", "persona"]}]}

`round` stands for `first_round` or `later_round`; `persona` is left out for an agent that has none, and `note` unless
the group's parameters ask for it. Where groups play, $group_count, $group and $group_numbers tell of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from importlib import resources
from string import Template
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

# Which values a part may use. A shared part that named the round or the persona would end the shared prefix.
_SHARED = frozenset({"target_rule", "target_formula", "group_count"})
_OF_GROUPS = frozenset({"group_count", "group", "group_numbers"})
_VALUES_OF_PARTS = {
    "first_round": _SHARED | {"round", "group"},
    "later_round": _SHARED | {"round", "group", "last_winner", "group_numbers"},
    "persona": _SHARED | {"persona"},
}
NOTE = "note"
_REQUIRED_PARTS = frozenset({"first_round", "later_round", "persona"})
_RANKS = {"round": 1, "persona": 2}


class PromptTemplateError(ValueError):
    """A template that is absent or malformed."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"prompt template {name}: {problem}")
        self.name = name
        self.problem = problem


class TemplateMessage(BaseModel):
    """One message: its role, and the parts of which it is made, joined by blank lines."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    role: Literal["system", "user"]
    parts: Annotated[tuple[str, ...], Field(min_length=1)]


class PromptTemplate(BaseModel):
    """A checked template."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, Field(min_length=1, max_length=80)]
    version: Annotated[int, Field(ge=1)]
    answer: Literal["number", "reasoning_and_number"]
    parts: Mapping[str, str]
    messages: Annotated[tuple[TemplateMessage, ...], Field(min_length=1)]

    @property
    def has_note(self) -> bool:
        """Whether it has a note that can be asked for."""
        return any(NOTE in message.parts for message in self.messages)

    @property
    def tells_of_groups(self) -> bool:
        """Whether it makes sense only where groups play."""
        return any(_OF_GROUPS & set(Template(text).get_identifiers()) for text in self.parts.values())

    @model_validator(mode="after")
    def _check_parts(self) -> Self:
        if missing := _REQUIRED_PARTS - self.parts.keys():
            raise ValueError(f"parts lack {', '.join(sorted(missing))}")
        for name, text in self.parts.items():
            template = Template(text)
            if not template.is_valid():
                raise ValueError(f"parts.{name} has a stray '$' (write '$$' for a dollar sign)")
            if unknown := set(template.get_identifiers()) - _VALUES_OF_PARTS.get(name, _SHARED):
                raise ValueError(f"parts.{name} may not use ${', $'.join(sorted(unknown))}")
        return self

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        used = [name for message in self.messages for name in message.parts]
        for name in used:
            if name not in self.parts and name != "round":
                raise ValueError(f"messages name a part {name!r} that does not exist")
        if used.count("round") != 1 or used.count("persona") != 1:
            raise ValueError("messages must use 'round' and 'persona' once each")
        ranks = [_RANKS.get(name, 0) for name in used]
        if ranks != sorted(ranks):
            raise ValueError("shared parts come first, then the round, the persona last")
        return self


def load_template(source: str | Mapping[str, Any]) -> PromptTemplate:
    """An installed template by its name, or one that a spec carries as a document.

    Raises PromptTemplateError.
    """
    if isinstance(source, str):
        return _read_document(source, _load_installed(source))
    return _read_document(str(source.get("name", "in the spec")), source)


def list_templates() -> list[str]:
    """The names of the installed templates."""
    return sorted(name.removesuffix(".json") for name in _list_files())


def _load_installed(name: str) -> Any:
    if f"{name}.json" not in set(_list_files()):
        raise PromptTemplateError(name, f"not installed; there are {', '.join(list_templates())}")
    text = resources.files(__package__).joinpath("prompts", f"{name}.json").read_text(encoding="utf-8")
    return json.loads(text)


def _list_files() -> Iterator[str]:
    folder = resources.files(__package__).joinpath("prompts")
    return (entry.name for entry in folder.iterdir() if entry.name.endswith(".json"))


def _read_document(name: str, document: Any) -> PromptTemplate:
    try:
        return PromptTemplate.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(str(step) for step in first["loc"])
        message = first["msg"].removeprefix("Value error, ")
        raise PromptTemplateError(name, f"{place}: {message}" if place else message) from error
