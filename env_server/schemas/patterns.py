"""Patterns: how much work a regular expression may be, told from its text.

Matching is linear in the length of what is matched, times the places of the pattern that may be met at once; a bounded
repetition, a few characters long, has as many of these as it repeats.
"""

import re
from typing import Final

from env_server.model.errors import InvalidRequest, Reason

_PARTS_A_PLACE: Final = 4
"""A place costs so much more, for a byte of a value, than a part of a schema does on the average."""
_REPEATED_MAX: Final = 1_000_000
"""Taken for any larger number: far above what is let in."""
_PLACES_MAX: Final = _REPEATED_MAX**2
_TOKENS: Final = re.compile(
    r"""
      \\[pP]\{[^}]*\} | \\[xuU]\{[^}]*\} | \\.      # an escape
    | \[\^?\]?(?:\\.|\[:[^\]]*:\]|[^\]\\])*\]?      # a class
    | (?P<repeated>\{(?P<least>\d*)(?:,(?P<most>\d*))?\}) | (?P<again>[*+?])
    | (?P<opened>\((?:\?(?:P?<[^>]*> | (?P<flags>[a-zA-Z-]*):?))?)
    | (?P<closed>\))
    | .
    """,
    re.VERBOSE | re.DOTALL,
)


def weigh_pattern(pattern: str) -> int:
    """Parts of a schema that a pattern counts for: never too few, whatever its text; at most some 10**15.

    Raises:
        InvalidRequest: INVALID_FIELD; the flag x, under which texts mean something else.
    """
    outer: list[int] = []
    total = last = 0
    for token in _TOKENS.finditer(pattern):
        if token["opened"]:
            if "x" in (token["flags"] or ""):
                raise InvalidRequest(Reason.INVALID_FIELD, "entry_schema", "the flag x of patterns is not served")
            outer.append(total)
            total = last = 0
        elif token["closed"]:
            last, total = total + 1, (outer.pop() if outer else 0) + total + 1
        elif token["repeated"]:
            times = _number(token["most"]) or _number(token["least"])
            total += last * (times - 1) if times else 0
            total = min(total, _PLACES_MAX)
            last = min(last * max(times, 1), _PLACES_MAX)
        elif not token["again"]:
            last = 1
            total += 1
    return (sum(outer) + total + 1) * _PARTS_A_PLACE


def _number(digits: str | None) -> int:
    """What is written there; 0 = nothing is."""
    digits = (digits or "").lstrip("0")
    return _REPEATED_MAX if len(digits) > 6 else int(digits or 0)
