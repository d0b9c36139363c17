"""What is known of some languages: words that tell a value, and sentences in which attributes are told."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources

FOLDER = "languages"
OTHER = ""
"""In `sentences`: for attributes of any other name; `{name}` in it stands for that."""


@dataclass(frozen=True, slots=True)
class Language:
    """One language.

    Attributes:
        words: value -> other words that tell it.
        sentences: name of an attribute -> sentences of it, with `{value}`.
        same: other names of attributes.
    """

    words: Mapping[str, tuple[str, ...]]
    sentences: Mapping[str, tuple[str, ...]]
    same: Mapping[str, str]

    def find_sentences(self, name: str) -> tuple[str, ...]:
        """The sentences in which an attribute is told."""
        plain = name.casefold()
        return self.sentences.get(self.same.get(plain, plain)) or self.sentences[OTHER]


NO_LANGUAGE = Language({}, {OTHER: ("{name}: {value}.",)}, {})


def list_languages() -> list[str]:
    """Those of which something is known."""
    folder = resources.files(__package__).joinpath(FOLDER)
    return sorted(entry.name.removesuffix(".json") for entry in folder.iterdir() if entry.name.endswith(".json"))


@lru_cache(maxsize=16)
def find_language(name: str) -> Language:
    """What is known of a language; of most nothing is."""
    found = next((one for one in list_languages() if one.casefold() == name.casefold()), None)
    if found is None:
        return NO_LANGUAGE
    text = resources.files(__package__).joinpath(FOLDER, f"{found}.json").read_text(encoding="utf-8")
    document = json.loads(text)
    return Language(
        {value: tuple(words) for value, words in document["words"].items()},
        {attribute: tuple(sentences) for attribute, sentences in document["sentences"].items()},
        document["same"],
    )
