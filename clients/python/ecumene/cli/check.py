"""`ecumene check`: all mistakes of specs, each with its line, before anything runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ecumene.cli.connecting import JsonOption
from ecumene.cli.failures import ExitCode
from ecumene.cli.tables import print_json
from ecumene.sim.checks.check import CheckReport, check_spec


def check(
    specs: Annotated[list[Path], typer.Argument(help="Specs, YAML files.", metavar="SPEC.yaml…")],
    fields_only: Annotated[
        bool, typer.Option("--fields-only", help="Import no classes: quicker, and runs no code of yours.")
    ] = False,
    as_json: JsonOption = False,
) -> int:
    """Find all mistakes of specs before anything runs: each with its line, its field and what to do."""
    reports = [check_spec(path, loads_classes=not fields_only) for path in specs]
    if as_json:
        print_json([report.to_document() for report in reports])
    else:
        for report in reports:
            show_report(report)
    return ExitCode.USAGE if any(report.problems for report in reports) else ExitCode.DONE


def show_report(report: CheckReport) -> None:
    """A line for each problem and each warning, and one for a spec that has no problem."""
    for problem in report.problems:
        print(f"{report.source}: {problem}")
    for warning in report.warnings:
        print(f"{report.source}: warning: {warning}")
    if not report.problems:
        print(f"{report.source}: can be run")
