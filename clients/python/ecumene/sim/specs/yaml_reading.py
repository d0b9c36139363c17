"""YAML, read as data only, and without the silent loss of repeated keys."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

Place = tuple[str | int, ...]
Lines = Mapping[Place, int]
"""Where the fields of a document stand: the path of each, and its line, from 1."""


FIELDS_MAX = 100_000


class YamlError(ValueError):
    """Text that is no YAML, repeats a key, or is more than a spec can be; `line` says where, if it is one line's."""

    def __init__(self, problem: str, line: int | None = None) -> None:
        super().__init__(problem)
        self.line = line


class _Loader(yaml.SafeLoader):
    """Refuses a key that stands twice in a mapping, where YAML would keep the last, and says where a value is none.

    Plain scalars are read as YAML 1.2 reads them: `no`, `1:30`, `010` and `2026-12-01` are the texts they look like.
    """

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - PyYAML's own way

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


_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]*)|0x[0-9a-fA-F]+")
_REAL = re.compile(
    r"[-+]?(\.[0-9]+|[0-9]+\.[0-9]*|[0-9]+(\.[0-9]*)?(?=[eE]))([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
)
for _tag, _pattern, _first in (
    ("null", re.compile(r"~|null|Null|NULL|"), ["~", "n", "N", ""]),
    ("bool", re.compile(r"true|True|TRUE|false|False|FALSE"), list("tTfF")),
    ("int", _INTEGER, list("-+0123456789")),
    ("float", _REAL, list("-+.0123456789")),
    ("merge", re.compile(r"<<"), ["<"]),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(rf"(?:{_pattern.pattern})$"), _first)


_COMMON = (
    (
        "cannot start any token",
        "a tab or a character that YAML keeps for itself; indent by spaces, and quote the value",
    ),
    (
        "mapping values are not allowed",
        "a second ': ' in this line, or a wrong indentation; quote text that holds ': '",
    ),
    ("<block end>", "the indentation fits nothing above; fields of one section begin in one column"),
    ("could not find expected ':'", "a field without ':', or the wrong indentation"),
    ("unexpected end of stream", "a quote or a bracket is open to the end of the file"),
    ("expected ',' or", "a bracket [ or { is not closed, or a comma is missing"),
    ("single document", "a second document begins ('---'); a spec is one"),
    ("found undefined alias", "an alias (*) of no anchor (&); quote text that begins with *"),
    ("could not determine a constructor", "a tag (!) that means nothing here; quote text that begins with !"),
)
"""What PyYAML says of the commonest mistakes -> what to do."""


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
        raise describe_error(error) from error
    finally:
        if loader is not None:
            loader.dispose()


def describe_error(error: yaml.YAMLError) -> YamlError:
    """What is no YAML, with line, column and what to do, in one line."""
    mark = getattr(error, "problem_mark", None)
    if isinstance(error, yaml.reader.ReaderError):
        return YamlError(f"a character that no text may hold, at {error.position}: {error.character!r}")
    told = str(getattr(error, "problem", None) or error)
    told = next((ours for theirs, ours in _COMMON if theirs in f"{told} {getattr(error, 'context', '')}"), told)
    return YamlError(f"{told} (column {mark.column + 1})" if mark else told, mark.line + 1 if mark else None)


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
