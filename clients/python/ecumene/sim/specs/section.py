"""What all parts of a spec have in common."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict


class Section(BaseModel):
    """A part of a spec: immutable, and a field that it does not know is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


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
