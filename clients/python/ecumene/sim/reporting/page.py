"""A page of sections, each of texts, pictures, bars and tables, as one HTML file that needs nothing else."""

from __future__ import annotations

import base64
import importlib.metadata
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import IO

from jinja2 import Environment, PackageLoader, StrictUndefined

from ecumene.client.records.whole_files import replace_whole
from ecumene.sim.reporting.theme import DARK, LIGHT, Theme, shade, tint

CELL_CHARS_MAX = 500
_PATH = re.compile(rb' d="[^"]*"')
_DIGITS = re.compile(rb"(\d\.\d\d)\d+")
ROUNDING = 1e-9
"""What is nearer to zero is zero, but for how numbers are summed."""
OPEN_ROWS_MAX = 40
"""Longer tables are folded."""
OPEN_BARS_MAX = 10
"""Likewise bars."""


@dataclass(frozen=True, slots=True)
class PageTable:
    """A table: its columns with whether they hold numbers, its cells as text, and what it shows.

    `is_folded`: only its caption is seen until it is opened. `marked`: rows that stand out.
    """

    caption: str
    columns: Sequence[tuple[str, bool]]
    rows: Sequence[Sequence[str]]
    is_folded: bool = False
    marked: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class PageImage:
    """A picture in Base64, for light pages and for dark ones, with what it tells those who do not see it.

    `legend`: letters that stand in the picture, their colours there, and what they mean.
    """

    light: str
    dark: str
    alt: str
    caption: str
    legend: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True, slots=True)
class PageStacks:
    """How answers divide, a line each: its label, what it is of, and how many gave each of `answers`, in their order.

    `is_ordered`: whether they go from less to more.
    """

    caption: str
    answers: Sequence[str]
    lines: Sequence[tuple[str, str, Sequence[int]]]
    is_ordered: bool = True

    def list_shades(self) -> list[tuple[str, str]]:
        """Background and ink of each answer."""
        count = len(self.answers)
        return [shade(place, count) if self.is_ordered else tint(place) for place in range(count)]


@dataclass(frozen=True, slots=True)
class PageBars:
    """Counts as bars: label, count, and the count that is wanted, where one is."""

    caption: str
    bars: Sequence[tuple[str, float, float | None]]

    @property
    def is_folded(self) -> bool:
        """Whether only its caption is seen until it is opened."""
        return len(self.bars) > OPEN_BARS_MAX

    @property
    def most(self) -> float:
        """What a bar of full length tells."""
        return max((max(have, wanted or 0) for _, have, wanted in self.bars), default=0) or 1


@dataclass(frozen=True, slots=True)
class PageSection:
    """A part of a page under a heading; `folded` is a summary and the text behind it."""

    title: str
    texts: Sequence[str] = ()
    images: Sequence[PageImage] = ()
    tables: Sequence[PageTable] = ()
    stacks: Sequence[PageStacks] = ()
    bars: Sequence[PageBars] = ()
    folded: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class PageNote:
    """What must be known before anything else is read; `label`: of what kind it is, in a word or two."""

    label: str
    text: str


@dataclass(frozen=True, slots=True)
class PageFigure:
    """A result to see at once: what it is, its value, and what belongs to it."""

    name: str
    value: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Page:
    """A page; `notes` stand at its top, in a frame, `figures` below them."""

    title: str
    subtitle: str
    place: Path
    notes: Sequence[PageNote]
    sections: Sequence[PageSection]
    figures: Sequence[PageFigure] = ()


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
        figures=page.figures,
        sections=page.sections,
        version=importlib.metadata.version("ecumene"),
        light=LIGHT,
        dark=DARK,
    )
    with replace_whole(path) as unfinished:
        # What is no Unicode, such as half of a pair from an endpoint's answer, is shown as what it is.
        unfinished.write_bytes(text.encode("utf-8", "backslashreplace"))


def make_image(
    draw: Callable[[IO[bytes], Theme], None], *, alt: str, caption: str, legend: Sequence[tuple[str, str]] = ()
) -> PageImage:
    """A picture that `draw` writes as SVG, in the colours that it is given."""
    light, dark = (_draw(draw, theme) for theme in (LIGHT, DARK))
    return PageImage(light, dark, alt, caption, legend)


def _draw(draw: Callable[[IO[bytes], Theme], None], theme: Theme) -> str:
    target = BytesIO()
    draw(target, theme)
    return base64.b64encode(_PATH.sub(_shorten_path, target.getvalue())).decode("ascii")


def _shorten_path(match: re.Match[bytes]) -> bytes:
    """A path of an SVG to a hundredth of a point, which takes half of the bytes."""
    return b" " + b" ".join(_DIGITS.sub(rb"\1", match[0]).split())


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
        shown = f"{value:.3f}" if ROUNDING < abs(value) < 1 else f"{value:,.2f}"
        return shown.replace("-", "−")
    return str(value)


def show_duration(seconds: float) -> str:
    """Seconds in the units that one would say."""
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60:,} h {minutes % 60} min"


def make_table(
    caption: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    texts: int = 1,
    remarks: int = 0,
    is_folded: bool = False,
    marked: Sequence[int] = (),
) -> PageTable:
    """A table whose first `texts` and last `remarks` columns hold text, the others numbers. Long ones are folded."""
    named = [(name, texts <= place < len(columns) - remarks) for place, name in enumerate(columns)]
    shown = [[show(cell) for cell in row] for row in rows]
    return PageTable(caption, named, shown, is_folded or len(rows) > OPEN_ROWS_MAX, frozenset(marked))
