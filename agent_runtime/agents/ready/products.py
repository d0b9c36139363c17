"""Finds slips of arithmetic in what a model thought, such as "2/3 of 45 is 33"."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

TEXT_CHARS_MAX = 20_000
# Bounded, so that a long run of digits costs no quadratic time.
_NUMBER = r"\d{1,12}(?:\.\d{1,12})?"
_WORDS = {
    "two thirds": Fraction(2, 3),
    "two-thirds": Fraction(2, 3),
    "one third": Fraction(1, 3),
    "a third": Fraction(1, 3),
    "half": Fraction(1, 2),
    "one half": Fraction(1, 2),
}
_SHARE = rf"(?:{'|'.join(_WORDS)}|\d{{1,12}}\s?/\s?[1-9]\d{{0,11}}|{_NUMBER}\s?%|\d{{0,12}}\.\d{{1,12}})"
_TIMES = r"\s?(?:times|multiplied\s+by|[×*·⋅])\s?"
_MEAN = r"(?:(?:the|an)\s+)?(?:(?:average|mean)\s+(?:of\s+)?)?"
_GIVES = r"\s?(?P<gives>is|equals|gives|makes|would\s+be|comes\s+to|=|≈|~)\s?"
_HEDGE = r"(?P<hedge>(?:about|around|roughly|approximately|nearly|almost|~|≈)\s?)?"
_PRODUCT = re.compile(
    rf"(?P<whole>(?:(?P<share>{_SHARE})\s+of\s+{_MEAN}(?P<amount>{_NUMBER})"
    rf"|(?P<left>{_SHARE}|{_NUMBER}){_TIMES}(?P<right>{_SHARE}|{_NUMBER}))"
    rf"{_GIVES}{_HEDGE}(?P<claim>{_NUMBER}))",
    re.IGNORECASE,
)
# A product inside a longer one ("2/3 of 2/3 of 50"), or whose claim goes on ("is 90/3"), is not simple.
_LONGER_BEFORE = re.compile(r"(?:[\w.,/*×·⋅^+\-−(]|[/*×·⋅^+\-−(]\s{1,2}|\b(?:of|times|by)\s{1,2})$", re.IGNORECASE)
_LONGER_AFTER = re.compile(r"^(?:\d|\.\d|,\d{3}|\s?[/*×·⋅^%]|\s(?:times|of)\b)")
_HEDGED_SHARE = Fraction(1, 20)
# 0.67 and 0.66 are written for two thirds: then either reading may be meant.
_ROUNDED = (("0.66", Fraction(2, 3)), ("0.67", Fraction(2, 3)), ("0.33", Fraction(1, 3)))


@dataclass(frozen=True, slots=True)
class WrongProduct:
    """A product that is not what the text says it is."""

    text: str
    claimed: float
    exact: float


def find_wrong_products(text: str) -> list[WrongProduct]:
    """Simple products of two factors with a stated result that is off, in the order of the text.

    A result may be rounded or cut at its last digit in either direction; one that is called about
    right may be off by 5 %. Longer products are left alone: better to miss a slip than to invent one. Of a long text
    only the end is read, as everybody waits meanwhile.
    """
    text = text[-TEXT_CHARS_MAX:]
    return [wrong for match in _PRODUCT.finditer(text) if (wrong := _check(text, match)) is not None]


def _check(text: str, match: re.Match[str]) -> WrongProduct | None:
    before, after = text[max(0, match.start() - 16) : match.start()], text[match.end() :]
    if _LONGER_BEFORE.search(before) or _LONGER_AFTER.match(after):
        return None
    claim = match["claim"]
    digit = Fraction(1, 10 ** len(claim.partition(".")[2]))
    hedged = match["hedge"] or match["gives"] in "≈~"
    readings = [
        left * right
        for left in _read_factor(match["share"] or match["left"])
        for right in _read_factor(match["amount"] or match["right"])
    ]
    for exact in readings:
        off = abs(Fraction(claim) - exact)
        if off < digit or (hedged and off <= exact * _HEDGED_SHARE):
            return None
    return WrongProduct(match["whole"], float(claim), float(readings[0]))


def _read_factor(text: str) -> list[Fraction]:
    """What a factor may mean; as written first."""
    folded = " ".join(text.lower().split())
    if folded in _WORDS:
        return [_WORDS[folded]]
    if folded.endswith("%"):
        return [share / 100 for share in _read_percentage(folded.rstrip("% "))]
    if "/" in folded:
        above, below = folded.split("/")
        return [Fraction(int(above), int(below))]
    plain = f"0{folded}" if folded.startswith(".") else folded
    return [Fraction(plain), *(meant for shown, meant in _ROUNDED if plain.startswith(shown))]


def _read_percentage(text: str) -> list[Fraction]:
    rounded = (("66", Fraction(200, 3)), ("67", Fraction(200, 3)), ("33", Fraction(100, 3)))
    return [Fraction(text), *(meant for shown, meant in rounded if text.startswith(shown))]
