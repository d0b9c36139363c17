"""What a command prints: tables for people, JSON for programs."""

from __future__ import annotations

import base64
import dataclasses
import datetime
import enum
import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

WIDTH_WITHOUT_TERMINAL = 120
CELL_CHARS_MAX = 100


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str = "") -> None:
    """Print rows; numbers stand right. Wide cells are cut on a terminal only."""
    is_terminal = sys.stdout.isatty()
    table = Table(title=title or None, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    kept = [list(row) for row in rows]
    for place, name in enumerate(columns):
        numeric = all(isinstance(row[place], int | float) or row[place] is None for row in kept) and bool(kept)
        table.add_column(name, justify="right" if numeric else "left", no_wrap=True)
    for row in kept:
        table.add_row(*(_cut(show_cell(cell), is_terminal) for cell in row))
    width = None if is_terminal else max(WIDTH_WITHOUT_TERMINAL, _measure(columns, kept))
    Console(file=sys.stdout, width=width, markup=False, highlight=False).print(table)


def print_json(document: object) -> None:
    """Print one JSON document on one line, in ASCII where the stream is not Unicode; bytes become {"base64": ...}."""
    is_unicode = (sys.stdout.encoding or "utf-8").lower().startswith("utf")
    print(json.dumps(document, ensure_ascii=not is_unicode, default=_encode), flush=True)


def to_document(found: Any) -> dict[str, Any]:
    """A dataclass as plain JSON; members of enumerations by their names in lower case."""
    return dataclasses.asdict(found, dict_factory=_name_members)


def show_cell(cell: object) -> str:
    """A cell as text: floats with six significant digits, documents as JSON, nothing as a dash."""
    if cell is None:
        return "-"
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, int):
        return f"{cell:,}"
    if isinstance(cell, float):
        return f"{cell:.6g}"
    if isinstance(cell, bytes):
        return f"{len(cell)} bytes"
    return cell if isinstance(cell, str) else json.dumps(cell, ensure_ascii=False, default=_encode)


def show_time(wall_time_ns: int) -> str:
    """A moment to the millisecond, with its zone: UTC."""
    moment = datetime.datetime.fromtimestamp(wall_time_ns / 1e9, datetime.UTC)
    return moment.strftime("%Y-%m-%d %H:%M:%S.") + f"{moment.microsecond // 1000:03}Z"


def _cut(text: str, is_terminal: bool) -> str:
    text = " ".join(text.split())
    return f"{text[: CELL_CHARS_MAX - 1]}…" if is_terminal and len(text) > CELL_CHARS_MAX else text


def _measure(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> int:
    """A width that cuts no cell."""
    cells = [list(columns), *([show_cell(cell) for cell in row] for row in rows)]
    return sum(max(map(len, column)) + 3 for column in zip(*cells, strict=True))


def _name_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return {name: value.name.lower() if isinstance(value, enum.Enum) else value for name, value in pairs}


def _encode(value: object) -> object:
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode("ascii")}
    raise TypeError(f"{type(value).__name__} has no form in JSON")
