"""Durations as people write them, 1h30m, to whole nanoseconds and back."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction

UNITS_NS = {
    "d": 86_400_000_000_000,
    "h": 3_600_000_000_000,
    "m": 60_000_000_000,
    "s": 1_000_000_000,
    "ms": 1_000_000,
    "us": 1_000,
    "ns": 1,
}
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(d|h|ms|m|us|ns|s)")
_SPACES = re.compile(r"(?<=[a-z])\s+(?=[0-9])")
_MICRO_SIGNS = str.maketrans("\u00b5\u03bc", "uu")
_NS_MAX = 2**63 - 1
_CHARS_MAX = 100


def parse_duration(text: str) -> int:
    """A duration in nanoseconds: numbers with units (d, h, m, s, ms, us, ns), each unit once, large before small.

    A number alone is nanoseconds; spaces may stand between parts. Exact: decimals are no floats.

    Raises ValueError.
    """
    if len(text) > _CHARS_MAX:
        raise ValueError(f"{text[:20]!r}... is no duration: it has {len(text):,} signs")
    bare = _SPACES.sub("", text.strip().translate(_MICRO_SIGNS).lower())
    sign, digits = (-1, bare[1:]) if bare.startswith("-") else (1, bare)
    total = Fraction(digits) if digits.isascii() and digits.isdigit() else _add_parts(text, digits)
    if total.denominator != 1:
        raise ValueError(f"{text!r} is not a whole number of nanoseconds")
    if total > _NS_MAX:
        raise ValueError(f"{text!r} is longer than 292 years")
    return sign * int(total)


def show_duration(duration_ns: int) -> str:
    """A duration in the form that `parse_duration` reads; whole seconds and more, the rest as their decimals."""
    sign, left_ns = ("-", -duration_ns) if duration_ns < 0 else ("", duration_ns)
    if 0 < left_ns < UNITS_NS["s"]:
        unit = next(name for name in ("ms", "us", "ns") if left_ns >= UNITS_NS[name])
        return f"{sign}{_trim(Decimal(left_ns) / UNITS_NS[unit])}{unit}"
    parts = []
    for unit in ("d", "h", "m"):
        count, left_ns = divmod(left_ns, UNITS_NS[unit])
        parts += [f"{count}{unit}"] if count else []
    if left_ns or not parts:
        parts.append(f"{_trim(Decimal(left_ns) / UNITS_NS['s'])}s")
    return sign + "".join(parts)


def _add_parts(text: str, digits: str) -> Fraction:
    parts = list(_PART.finditer(digits))
    sizes = [UNITS_NS[part[2]] for part in parts]
    if not parts or "".join(part[0] for part in parts) != digits:
        raise ValueError(f"{text!r} is no duration")
    if sizes != sorted(set(sizes), reverse=True):
        raise ValueError(f"{text!r} is no duration: each unit stands once, large before small")
    return sum((Fraction(part[1]) * size for part, size in zip(parts, sizes, strict=True)), Fraction(0))


def _trim(number: Decimal) -> str:
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
