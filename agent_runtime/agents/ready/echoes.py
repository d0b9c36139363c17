"""Which attributes of a person come back in a text, in any language, without a model.

What is looked for is the value of each attribute: a number in digits, or its words, also inflected. That a text denies
what it names ("she is no nurse") is not seen.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence

NUMBER_PRECISION = 0.005
"""Of numbers that are not whole: a text may round them so far, in relation to them."""
WORD_CHARS_MIN = 4
"""Shorter words of a longer value are not looked for."""
STEM_SHARE = 0.65
"""Two words are forms of one if they begin alike so far, in relation to the longer of them."""
_NUMBER = re.compile(r"\d{1,3}(?:[.,' ]\d{3})+(?:[.,]\d+)?|\d+(?:[.,]\d+)?")
_GROUPED = re.compile(r"\d{1,3}(?:[.,' ]\d{3})+")
_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
_ASIDE = re.compile(r"\([^)]*\)")
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")
"""Scripts without spaces between words: Thai, Lao, Burmese, Khmer, Japanese, Chinese."""
_ALIKE = {ord(mark): "'" for mark in "\u2018\u2019\u02bc\u0060\u00b4"} | {
    ord(mark): "-" for mark in "\u2010\u2011\u2012\u2013\u2212"
}

Value = str | int | float | bool


def find_missing(
    attributes: Mapping[str, Value], text: str, words: Mapping[str, Sequence[str]] | None = None
) -> tuple[str, ...]:
    """The names of the attributes that a text does not tell, in their order.

    `words`: by which other words a text may tell a value.
    """
    told = _Text(text)
    missing = []
    for name, value in attributes.items():
        others = (words or {}).get(str(value), ())
        if not any(told.tells(one) for one in (value, *others)):
            missing.append(name)
    return tuple(missing)


class _Text:
    """A text, made ready to be looked through many times."""

    def __init__(self, text: str) -> None:
        self._plain = normalise(text)
        self._words = _WORD.findall(self._plain)
        self._joined = "".join(self._plain.split())
        self._numbers = frozenset(number for found in _NUMBER.findall(self._plain) for number in _read_numbers(found))

    def tells(self, value: Value) -> bool:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return self._tells_number(value)
        phrase = normalise(_ASIDE.sub(" ", str(value))) or normalise(str(value))
        if _UNSPACED.search(phrase):
            return "".join(phrase.split()) in self._joined
        sought = _WORD.findall(phrase)
        if not sought:
            return phrase in self._plain
        long = [word for word in sought if len(word) >= WORD_CHARS_MIN or word.isdecimal()]
        return all(any(is_form_of(word, other) for other in self._words) for word in long or sought)

    def _tells_number(self, value: float) -> bool:
        size = abs(float(value))  # a text may say "below zero"
        if size.is_integer():
            return size in self._numbers
        return any(abs(number - size) <= NUMBER_PRECISION * size for number in self._numbers)


def normalise(text: str) -> str:
    """A text in one of its spellings: no matter which case, form of letters, digits, apostrophes, dashes and spaces."""
    plain = unicodedata.normalize("NFKC", text).casefold().translate(_ALIKE)
    digits = (str(unicodedata.decimal(sign)) if sign.isdecimal() and not sign.isascii() else sign for sign in plain)
    return " ".join("".join(digits).split())


def is_form_of(word: str, other: str) -> bool:
    """Whether two normalised words are the same, or begin so much alike that they are forms of one word."""
    if word == other:
        return True
    if min(len(word), len(other)) < WORD_CHARS_MIN:
        return False
    alike = next((place for place, (one, two) in enumerate(zip(word, other, strict=False)) if one != two), None)
    shared = min(len(word), len(other)) if alike is None else alike
    return shared >= max(WORD_CHARS_MIN, STEM_SHARE * max(len(word), len(other)))


def _read_numbers(found: str) -> Iterator[float]:
    """What a number in a text may be: `1,234` is a thousand and more for some, and a little more than 1 for others."""
    if _GROUPED.fullmatch(found):
        yield float(re.sub(r"\D", "", found))
    whole, _, rest = re.sub(r"[,' ]", ".", found).rpartition(".")
    yield float(f"{whole.replace('.', '')}.{rest}" if whole else rest)
