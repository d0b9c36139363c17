"""What all parts of a spec have in common."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

_ATTRIBUTES = re.compile(r"^Attributes:\n((?:[ ]+.*\n?|\n)+)", re.MULTILINE)


TAG = "~"
"""Begins what tells the kinds of a field apart, which are no part of its path."""


class Section(BaseModel):
    """A part of a spec: immutable, and a field that it does not know is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """What the docstring says of the section and of its attributes becomes the schema's descriptions."""
        made = handler(schema)
        own = handler.resolve_ref_schema(made)
        own["description"] = (inspect.getdoc(cls) or "").partition("\n\n")[0]
        for name, text in describe_attributes(cls).items():
            if name in own.get("properties", {}):
                own["properties"][name]["description"] = text
        return made


def describe_attributes(section: type[BaseModel]) -> dict[str, str]:
    """What docstrings of a section, and of those it extends, say of attributes: a line each, `name, another: text`."""
    described: dict[str, str] = {}
    for told in reversed(section.__mro__):
        described |= _read_attributes(told.__doc__ or "")
    return described


def _read_attributes(docstring: str) -> dict[str, str]:
    found = _ATTRIBUTES.search(inspect.cleandoc(docstring))
    if found is None:
        return {}
    entries: list[str] = []
    for line in inspect.cleandoc(" \n" + found[1]).splitlines():
        if line.startswith(" ") and entries:
            entries[-1] += " " + line.strip()
        elif line.strip():
            entries.append(line.strip())
    described: dict[str, str] = {}
    for entry in entries:
        names, _, text = entry.partition(": ")
        described |= dict.fromkeys(names.split(", "), text[:1].upper() + text[1:])
    return described


def _check_path(path: Path) -> Path:
    text = str(path)
    if "\0" in text or text != text.encode("utf-8", "replace").decode():
        raise ValueError("holds what no name of a file can")
    return path


def _check_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        is_whole = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_whole = False
    if not is_whole or not url.isprintable() or " " in url:
        raise ValueError("must look like http://host:port/v1")
    if parts.username is not None or parts.password is not None:
        raise ValueError("holds credentials; give the key by api_key_variable or api_key_file")
    return url


FilePath = Annotated[Path, AfterValidator(_check_path)]
"""A path that may be there or not."""
BaseUrl = Annotated[str, AfterValidator(_check_url)]
"""Where an endpoint is, without credentials."""
