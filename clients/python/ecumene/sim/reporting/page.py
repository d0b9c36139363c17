"""A page of sections, each of texts, pictures and tables, as one HTML file that needs nothing else."""

from __future__ import annotations

import base64
import importlib.metadata
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import IO

from jinja2 import Environment, PackageLoader, StrictUndefined

CELL_CHARS_MAX = 500


@dataclass(frozen=True, slots=True)
class PageTable:
    """A table: its columns with whether they hold numbers, its cells as text, and what it shows."""

    caption: str
    columns: Sequence[tuple[str, bool]]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class PageImage:
    """A PNG in Base64, with what it tells those who do not see it."""

    data: str
    alt: str
    caption: str


@dataclass(frozen=True, slots=True)
class PageSection:
    """A part of a page under a heading; `folded` is a summary and the text behind it."""

    title: str
    texts: Sequence[str] = ()
    images: Sequence[PageImage] = ()
    tables: Sequence[PageTable] = ()
    folded: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """A page; `notes` stand at its top, in a frame."""

    title: str
    subtitle: str
    place: Path
    notes: Sequence[str]
    sections: Sequence[PageSection]


def write_page(path: Path, page: Page) -> None:
    """Write a page as one file; it appears whole, replacing an older one. Whatever texts hold is shown as text.

    Raises OSError.
    """
    environment = Environment(
        loader=PackageLoader("ecumene.sim.reporting"), autoescape=True, undefined=StrictUndefined, trim_blocks=False
    )
    text = environment.get_template("page.html.jinja").render(
        title=page.title,
        subtitle=page.subtitle,
        place=str(page.place),
        notes=page.notes,
        sections=page.sections,
        version=importlib.metadata.version("ecumene"),
    )
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        # What is no Unicode, such as half of a pair from an endpoint's answer, is shown as what it is.
        temporary.write_bytes(text.encode("utf-8", "backslashreplace"))
        temporary.rename(path)
    finally:
        temporary.unlink(missing_ok=True)


def make_image(draw: Callable[[IO[bytes]], None], *, alt: str, caption: str) -> PageImage:
    """A picture that `draw` writes as PNG."""
    target = BytesIO()
    draw(target)
    return PageImage(base64.b64encode(target.getvalue()).decode("ascii"), alt, caption)


def show(value: object) -> str:
    """A cell: counts with separators, measures with as many digits as tell something, nothing as a dash."""
    if value is None:
        return "–"
    if isinstance(value, bool | str):
        text = str(value)
        return text if len(text) <= CELL_CHARS_MAX else text[:CELL_CHARS_MAX] + "…"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.3f}" if abs(value) < 10 else f"{value:,.2f}"
    return str(value)


def make_table(
    caption: str, columns: Sequence[str], rows: Sequence[Sequence[object]], *, texts: int = 1, remarks: int = 0
) -> PageTable:
    """A table whose first `texts` and last `remarks` columns hold text, and the others numbers."""
    named = [(name, texts <= place < len(columns) - remarks) for place, name in enumerate(columns)]
    return PageTable(caption, named, [[show(cell) for cell in row] for row in rows])
