"""`ecumene export`: recorded tables as files for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ecumene.cli.connecting import JsonOption
from ecumene.cli.failures import CliError, UsageError
from ecumene.cli.resume import find_directory
from ecumene.cli.tables import print_json, print_table
from ecumene.client.records import TABLES, find_table
from ecumene.sim.exporting import FORMATS, export_tables


def export(
    run: Annotated[Path, typer.Argument(help="Directory of a run or sweep, or its name below --runs.", metavar="RUN")],
    out: Annotated[Path, typer.Option(help="Folder for the files, one a table.", metavar="DIR")],
    file_format: Annotated[str, typer.Option("--format", help="csv, json (one object a line) or parquet.")] = "csv",
    table: Annotated[
        list[str] | None, typer.Option(help="A table, such as turns; may be given more than once. All if none is.")
    ] = None,
    runs: Annotated[Path, typer.Option(help="Holds a folder for each run.", metavar="DIR")] = Path("runs"),
    as_json: JsonOption = False,
) -> None:
    """Write recorded tables as files: each fact once, in the order of its ids."""
    if file_format not in FORMATS:
        raise UsageError(f"{file_format!r} is no format", hint=f"--format is one of {', '.join(FORMATS)}")
    known = [one.name for one in TABLES]
    if unknown := [name for name in table or () if name not in known]:
        raise UsageError(f"{unknown[0]!r} is no table", hint=f"there are {', '.join(known)}")
    chosen = [find_table(name) for name in dict.fromkeys(table or known)]
    directory = find_directory(run, runs)
    try:
        written = export_tables(directory, out, file_format=file_format, tables=chosen)
    except OSError as error:
        raise CliError(f"{error.filename or out} cannot be written: {error.strerror or error}") from error
    if as_json:
        print_json([{"table": one.table, "path": str(one.path), "rows": one.rows} for one in written])
        return
    print_table(("table", "rows", "file"), ((one.table, one.rows, str(one.path)) for one in written))
