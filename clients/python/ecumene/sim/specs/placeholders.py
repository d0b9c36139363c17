"""Names in braces, in texts of a spec that are told of each agent: `{age}`."""

from __future__ import annotations

import re
from collections.abc import Mapping

_PLACEHOLDER = re.compile(r"\{([^\W\d_][\w-]*)\}")


def list_placeholders(text: str) -> list[str]:
    """The names that a text uses, each once, in their order. Braces around anything else are text."""
    return list(dict.fromkeys(_PLACEHOLDER.findall(text)))


def fill(text: str, values: Mapping[str, str]) -> str:
    """A text with values in place of their names, all at once: a value may hold braces itself.

    Raises KeyError: it has no value for a name.
    """
    return _PLACEHOLDER.sub(lambda found: values[found[1]], text)
