"""What a command prints: tables for people, JSON for programs."""

from __future__ import annotations

import base64
import dataclasses
import datetime
import enum
import json
import shutil
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table

WIDTH_WITHOUT_TERMINAL = 120
CELL_CHARS_MAX = 100
SEPARATOR_CHARS = 3
COLUMN_CHARS_MIN = 12
"""To which a column of text is narrowed on a terminal that is not wide enough for all."""
RULE_SIGNS = frozenset(" ─-")


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str = "", fold_last: bool = False
) -> None:
    """Print rows; numbers stand right. Wide cells of text are cut on a terminal only, those of the last column first.

    `fold_last`: what does not fit into the last column goes on in the next line.
    """
    is_terminal = sys.stdout.isatty()
    table = Table(title=title or None, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    kept = [list(row) for row in rows]
    cells = [[_cut(show_cell(cell), is_terminal) for cell in row] for row in kept]
    numeric = [all(cell is None or isinstance(cell, int | float) for cell in row) for row in zip(*kept, strict=True)]
    numeric = numeric or [False] * len(columns)
    widths = _fit(columns, cells, numeric, shutil.get_terminal_size().columns if is_terminal else None)
    for place, name in enumerate(columns):
        folds = fold_last and place == len(columns) - 1
        table.add_column(
            name,
            justify="right" if numeric[place] else "left",
            no_wrap=not folds,
            overflow="fold" if folds else "ellipsis",
            width=widths[place],
        )
    for row in cells:
        table.add_row(*row)
    _print_unpadded(table, sum(widths) + SEPARATOR_CHARS * len(widths))


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


def show_count(number: int, what: str, plural: str = "") -> str:
    """So many of what: `1 agent`, `2,000 agents`. `plural`: where it is more than an s."""
    return f"{number:,} {what if number == 1 else plural or what + 's'}"


def show_time(wall_time_ns: int) -> str:
    """A moment to the millisecond, with its zone: UTC."""
    moment = datetime.datetime.fromtimestamp(wall_time_ns / 1e9, datetime.UTC)
    return moment.strftime("%Y-%m-%d %H:%M:%S.") + f"{moment.microsecond // 1000:03}Z"


def _cut(text: str, is_terminal: bool) -> str:
    text = " ".join(text.split())
    return f"{text[: CELL_CHARS_MAX - 1]}…" if is_terminal and len(text) > CELL_CHARS_MAX else text


def _fit(
    columns: Sequence[str], cells: Sequence[Sequence[str]], numeric: Sequence[bool], room: int | None
) -> list[int]:
    """Widths of columns. Where the room is less, text is narrowed, the last column first; numbers stay whole."""
    widths = [max(map(cell_len, column)) for column in zip(columns, *cells, strict=True)]
    missing = 0 if room is None else sum(widths) + SEPARATOR_CHARS * len(widths) - room
    widest_first = sorted(range(len(widths) - 1), key=lambda place: -widths[place])
    for place in [len(widths) - 1, *widest_first]:
        if missing > 0 and not numeric[place]:
            narrowed = max(widths[place] - missing, min(widths[place], COLUMN_CHARS_MIN))
            missing -= widths[place] - narrowed
            widths[place] = narrowed
    return widths


def _print_unpadded(table: Table, width: int) -> None:
    """Without blanks at the ends of lines: one wide cell would make all lines as wide, where nothing cuts it."""
    console = Console(file=sys.stdout, width=width, markup=False, highlight=False)
    with console.capture() as printed:
        console.print(table)
    for line in printed.get().splitlines():
        bare = line.rstrip()
        print(bare[:WIDTH_WITHOUT_TERMINAL] if set(bare) <= RULE_SIGNS else bare)


def _name_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return {name: value.name.lower() if isinstance(value, enum.Enum) else value for name, value in pairs}


def _encode(value: object) -> object:
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode("ascii")}
    raise TypeError(f"{type(value).__name__} has no form in JSON")
