"""Who the agents of a population are beyond their attributes: texts that a model writes, or that are put together."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from ecumene.sim.specs.attributes import AttributeName
from ecumene.sim.specs.households import HOUSEHOLD
from ecumene.sim.specs.placeholders import list_placeholders
from ecumene.sim.specs.section import FilePath, Section

BACKGROUND = "background"
"""The column of a profile, and the name in braces in a persona, that holds the text."""
_OF_MODEL = ("model", "prompt", "temperature", "repairs", "redos", "alike", "words")
_OF_TEMPLATE = ("texts",)
Degrees = Annotated[float, Field(ge=0, le=2)]
Word = Annotated[str, Field(min_length=1, max_length=200)]


class RangeSpec(Section):
    """Temperatures between two, one drawn for each text.

    Attributes:
        low: the lowest.
        high: the highest.
    """

    low: Degrees
    high: Degrees

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.low > self.high:
            raise ValueError(f"low {self.low:g} is above high {self.high:g}")
        return self


class BackgroundsSpec(Section):
    """A text for each agent that says who it is, made of its attributes.

    Attributes:
        mode: `model` = written by a model before the run (`ecumene background SPEC`); `template` = put together from
            sentences, without any.
        file: what was written stands there, a Parquet file; beside it, in a file of the same name with the suffix
            `.cache`, is kept what is finished, so that a command that was killed goes on.
        groups: only agents of these groups have one; empty = all.
        attributes: those that are told in the text; empty = all of the population, but for the number of a household.
        language: in which to write, as people call it; texts put together know English and German.
        model: which of the spec's `models` writes; needed where there are several.
        prompt: the name of an installed prompt, or a prompt.
        temperature: the range from which that of each text is drawn; null = that of the model.
        repairs: how often a text that lacks attributes is asked for again.
        redos: how often a text that is too much like another one, or no usable answer, is written anew.
        alike: two texts are too much alike if they share this part of their word triples, from 0 to 1 (Jaccard).
        words: by which other words a text may tell a value, such as `female: [she, woman]`, beside those that are
            known for the language.
        texts: of `template`: texts with the names of attributes in braces, one drawn for each agent; empty = sentences
            of the language.
    """

    mode: Literal["model", "template"] = "model"
    file: FilePath = Path("backgrounds.parquet")
    groups: tuple[str, ...] = ()
    attributes: tuple[AttributeName, ...] = ()
    language: Annotated[str, Field(min_length=1, max_length=80)] = "English"
    model: str | None = None
    prompt: str | dict[str, Any] = "background-1"
    temperature: RangeSpec | None = RangeSpec(low=0.7, high=1.1)
    repairs: Annotated[int, Field(ge=0, le=10)] = 1
    redos: Annotated[int, Field(ge=0, le=10)] = 2
    alike: Annotated[float, Field(gt=0, le=1)] = 0.5
    words: Annotated[dict[str, Annotated[tuple[Word, ...], Field(max_length=100)]], Field(max_length=10_000)] = Field(
        default_factory=dict
    )
    texts: Annotated[tuple[Annotated[str, Field(min_length=1, max_length=10_000)], ...], Field(max_length=1_000)] = ()

    @property
    def cache(self) -> Path:
        """Where finished texts are kept."""
        return self.file.with_name(f"{self.file.name}.cache")

    def resolve_paths(self) -> BackgroundsSpec:
        """The same with an absolute path."""
        return self.model_copy(update={"file": self.file.resolve()})

    def put_together(self) -> BackgroundsSpec:
        """The same without a model: for other agents than those for whom it has written, or will."""
        if self.mode == "template":
            return self
        told = {name: getattr(self, name) for name in ("file", "groups", "attributes", "language")}
        return BackgroundsSpec(mode="template", **told)

    def choose_attributes(self, known: Iterable[str]) -> list[str]:
        """Those that are told, of all that there are."""
        return list(self.attributes) or [name for name in known if name != HOUSEHOLD]

    def list_problems(self, known: list[str], groups: list[str]) -> list[tuple[tuple[str | int, ...], str]]:
        """What does not fit the population's attributes and groups: field -> what is wrong."""
        problems: list[tuple[tuple[str | int, ...], str]] = []
        if not known:
            return [((), "there are no attributes to make a text of: give population.attributes")]
        if BACKGROUND in known:
            problems.append(((), f"an attribute is called {BACKGROUND!r}, too: give it another name"))
        if unknown := [name for name in self.attributes if name not in known]:
            told = f"no attribute is called {unknown[0]!r}; there are {', '.join(known)}"
            problems.append((("attributes",), told))
        if unknown := [name for name in self.groups if name not in groups]:
            problems.append((("groups",), f"no group is called {unknown[0]!r}; there are {', '.join(groups)}"))
        told_names = self.choose_attributes(known)
        for place, text in enumerate(self.texts):
            used = list_placeholders(text)
            if unknown := [name for name in used if name not in told_names]:
                text = f"{unknown[0]!r} is not among the attributes that are told: {', '.join(told_names)}"
                problems.append((("texts", place), text))
            elif lacking := [name for name in told_names if name not in used]:
                text = f"does not tell {lacking[0]}; attributes says which are to be told"
                problems.append((("texts", place), text))
        return problems

    @model_validator(mode="after")
    def _check_mode(self) -> Self:
        strange = _OF_TEMPLATE if self.mode == "model" else _OF_MODEL
        for name in strange:
            if name in self.model_fields_set and getattr(self, name) != type(self).model_fields[name].get_default(
                call_default_factory=True
            ):
                other = "template" if self.mode == "model" else "model"
                raise ValueError(f"{name} is for mode {other}")
        if self.file.suffix != ".parquet":
            raise ValueError(f"file: {self.file} must end in .parquet")
        return self
