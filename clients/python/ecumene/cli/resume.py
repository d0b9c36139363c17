"""`ecumene resume`: go on with a run that was killed, interrupted, or stopped by a budget."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Annotated

import typer

from ecumene.cli.connecting import JsonOption, check_address
from ecumene.cli.failures import UsageError
from ecumene.cli.running import execute_resume
from ecumene.cli.sweeping import execute_sweep_resume
from ecumene.sim import RunOptions
from ecumene.sim.recordings.sweep_file import is_sweep

RUN = "run"
BudgetOption = Annotated[
    list[str] | None,
    typer.Option("--tokens-max", help="A new budget of the run, or MODEL=N of a model.", metavar="[MODEL=]N"),
]


def resume(
    run: Annotated[Path, typer.Argument(help="The run's directory, or its name below --out.", metavar="RUN")],
    tokens_max: BudgetOption = None,
    microdollars_max: Annotated[
        list[str] | None,
        typer.Option("--microdollars-max", help="Likewise, in millionths of a dollar.", metavar="[MODEL=]N"),
    ] = None,
    server: Annotated[
        str | None, typer.Option(help="Where the server that the run was given is now.", metavar="ADDRESS")
    ] = None,
    workers: Annotated[int | None, typer.Option(help="Processes of the runtime (by size).", min=1)] = None,
    out: Annotated[Path, typer.Option(help="Holds a folder for each run.", metavar="DIR")] = Path("runs"),
    as_json: JsonOption = False,
) -> None:
    """Go on with a run that ended before its time, from where it stands to its end."""
    if server is not None:
        check_address(server)
    directory = find_directory(run, out)
    budgets = {
        "tokens_max": parse_budgets("--tokens-max", tokens_max or []),
        "microdollars_max": parse_budgets("--microdollars-max", microdollars_max or []),
    }
    options = RunOptions(server=server, workers=workers, budgets=budgets)
    if is_sweep(directory):
        execute_sweep_resume(directory, options, as_json=as_json)
    else:
        execute_resume(directory, options, as_json=as_json)


def find_directory(run: Path, out: Path) -> Path:
    """The directory of a run that is named by itself, or by its name below `out`. Raises UsageError."""
    for directory in (run, out / run):
        if directory.is_dir():
            return directory
    looked = str(run) if run.is_absolute() else f"{run} or {out / run}"
    begun = sorted(found.parent for found in itertools.chain(out.glob("*/manifest.json"), out.glob("*/sweep.json")))
    newest = max(begun, key=lambda directory: directory.stat().st_mtime, default=None)
    hint = f"the newest below {out} is {newest.name}" if newest else f"no run was begun below {out}: say where by --out"
    raise UsageError(f"no directory of a run is at {looked}", hint=hint)


def parse_budgets(option: str, given: list[str]) -> dict[str, int]:
    """Whose budget -> its maximum.

    Raises UsageError.
    """
    budgets = {}
    for text in given:
        whose, _, number = text.rpartition("=")
        plain = number.replace("_", "").replace(",", "")
        if not plain.isdecimal():
            raise UsageError(f"{option} needs a whole number, not {number!r}", hint="such as 50000, or small=50000")
        budgets[whose or RUN] = int(plain)
    return budgets
