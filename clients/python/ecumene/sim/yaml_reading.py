"""YAML, read as data only, and without the silent loss of repeated keys."""

from __future__ import annotations

from typing import Any

import yaml


class YamlError(ValueError):
    """Text that is no YAML, or repeats a key; the message says where."""


class _Loader(yaml.SafeLoader):
    """Refuses a key that stands twice in a mapping, where YAML would keep the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"the key {key.value!r} stands twice", key.start_mark
                    )
                seen.add(key.value)
        return super().construct_mapping(node, deep)


def read_yaml(text: str) -> Any:
    """The document in a text: mappings, lists, numbers and strings, nothing executable. Raises YamlError."""
    try:
        return yaml.load(text, _Loader)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark else ""
        raise YamlError(f"{where}{getattr(error, 'problem', None) or error}") from error
