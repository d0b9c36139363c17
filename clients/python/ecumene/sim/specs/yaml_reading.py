"""YAML, read as data only, and without the silent loss of repeated keys."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

Place = tuple[str | int, ...]
Lines = Mapping[Place, int]
"""Where the fields of a document stand: the path of each, and its line, from 1."""


FIELDS_MAX = 100_000


class YamlError(ValueError):
    """Text that is no YAML, repeats a key, or is more than a spec can be; the message says where."""


class _Loader(yaml.SafeLoader):
    """Refuses a key that stands twice in a mapping, where YAML would keep the last, and says where a value is none."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (ValueError, OverflowError) as error:  # such as a date of no calendar, or a number without end
            problem = "a number of too many digits" if "digits" in str(error) else str(error)
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark) from error

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


def read_yaml(text: str) -> tuple[Any, Lines]:
    """The document in a text (mappings, lists, numbers and strings, nothing executable), and where its fields stand.

    Raises YamlError.
    """
    loader = None
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is None:
            return None, {}
        # Before anything is made of it: some aliases of aliases would be more than any memory.
        lines = dict(itertools.islice(_list_lines(node, (), set()), FIELDS_MAX + 1))
        if len(lines) > FIELDS_MAX:
            raise YamlError(f"more than {FIELDS_MAX:,} fields, its aliases written out")
        return loader.construct_document(node), lines
    except RecursionError as error:
        raise YamlError("is nested too deeply") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark else ""
        raise YamlError(f"{where}{getattr(error, 'problem', None) or error}") from error
    finally:
        if loader is not None:
            loader.dispose()


def find_line(lines: Lines, place: Place) -> int | None:
    """The line of a field, or of the nearest one around it that stands in the document."""
    return next((lines[place[:end]] for end in range(len(place), 0, -1) if place[:end] in lines), None)


def _list_lines(node: yaml.Node, place: Place, above: set[int]) -> Iterator[tuple[Place, int]]:
    if id(node) in above:
        return  # an alias of what it stands in
    above = above | {id(node)}
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode):
                yield (*place, key.value), key.start_mark.line + 1
                yield from _list_lines(value, (*place, key.value), above)
    elif isinstance(node, yaml.SequenceNode):
        for number, item in enumerate(node.value):
            yield (*place, number), item.start_mark.line + 1
            yield from _list_lines(item, (*place, number), above)
