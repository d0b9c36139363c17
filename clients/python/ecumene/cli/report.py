"""`ecumene report`: one HTML page on a run or a sweep."""

from __future__ import annotations

import sys
import webbrowser
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ecumene.cli.connecting import JsonOption
from ecumene.cli.failures import CliError
from ecumene.cli.resume import find_directory
from ecumene.cli.tables import print_json
from ecumene.client.records import ManifestError
from ecumene.sim.reporting import REPORT_NAME, write_report


class OpenPage(StrEnum):
    """Whether the page is shown at once."""

    YES = "yes"
    NO = "no"
    AUTO = "auto"


def report(
    run: Annotated[Path, typer.Argument(help="Directory of a run or sweep, or its name below --runs.", metavar="RUN")],
    out: Annotated[
        Path | None, typer.Option(help=f"The page; by default {REPORT_NAME} in the directory.", metavar="FILE.html")
    ] = None,
    open_page: Annotated[
        OpenPage, typer.Option("--open", help="Show it in a browser; auto: if this is a terminal.")
    ] = OpenPage.NO,
    runs: Annotated[Path, typer.Option(help="Holds a folder for each run.", metavar="DIR")] = Path("runs"),
    as_json: JsonOption = False,
) -> None:
    """Write one HTML page that needs nothing else: figures, plots, failures, cost, comparison with references."""
    directory = find_directory(run, runs)
    path = out or directory / REPORT_NAME
    try:
        write_report(directory, path)
    except ManifestError as error:
        raise CliError(str(error)) from error
    except OSError as error:
        raise CliError(f"{error.filename or path} cannot be written or read: {error.strerror or error}") from error
    if as_json:
        print_json({"report": str(path), "bytes": path.stat().st_size})
    else:
        print(f"report: {path}")
    if open_page is OpenPage.YES or (open_page is OpenPage.AUTO and sys.stdout.isatty()):
        webbrowser.open(path.absolute().as_uri())
