"""Random globs and names that they often match: few signs, so that chance meets."""

from __future__ import annotations

import random

_NAME_SIGNS = "aab-]!^\\.é"
_GLOB_SIGNS = "aab-]!^\\.é***??[["


def draw_segment(chance: random.Random) -> str:
    """A name."""
    return "".join(chance.choices(_NAME_SIGNS, k=chance.randint(1, 4)))


def draw_path(chance: random.Random) -> str:
    """A path of up to five segments."""
    return "/" + "/".join(draw_segment(chance) for _ in range(chance.randint(0, 5)))


def draw_loose_glob(chance: random.Random) -> str:
    """Perhaps a glob over paths; perhaps malformed."""
    segments = [
        "**" if chance.random() < 0.3 else "".join(chance.choices(_GLOB_SIGNS, k=chance.randint(0, 6)))
        for _ in range(chance.randint(0, 5))
    ]
    return ("" if chance.random() < 0.1 else "/") + "/".join(segments)


def draw_glob(chance: random.Random) -> str:
    """A sound glob over paths."""
    names = ("a", "*", "?", "a*", "[ab]*", "[!a]", "**", "b", "*-*")
    segments = [chance.choice(names) for _ in range(chance.randint(1, 5))]
    return "/" + "/".join(segments)


def near_path(chance: random.Random, glob: str) -> str:
    """A path made from a glob, so that it is likely to match."""
    signs = []
    for segment in glob.strip("/").split("/"):
        if segment == "**":
            signs += [draw_segment(chance) for _ in range(chance.randint(0, 2))]
            continue
        text = segment.replace("*", "".join(chance.choices("ab", k=chance.randint(0, 2)))).replace("?", "a")
        signs.append(text or "a")
    return "/" + "/".join(signs)
