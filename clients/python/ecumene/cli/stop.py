"""`ecumene stop`: end a run or a sweep that another terminal conducts."""

from __future__ import annotations

import asyncio
import shlex
from pathlib import Path
from typing import Annotated

import typer

from ecumene.cli.connecting import JsonOption
from ecumene.cli.failures import CliError, ExitCode
from ecumene.cli.resume import find_directory
from ecumene.cli.tables import print_json
from ecumene.client.records import ManifestError, read_manifest
from ecumene.sim.recordings.sweep_file import is_sweep
from ecumene.sim.runs.stopping import STOP_TIMEOUT_S, StopTimeoutError, request_stop
from ecumene.sim.sweeps.record import read_sweep


def stop(
    run: Annotated[Path, typer.Argument(help="Directory of a run or a sweep, or its name below --out.", metavar="RUN")],
    out: Annotated[Path, typer.Option(help="Holds a folder for each run.", metavar="DIR")] = Path("runs"),
    timeout: Annotated[float, typer.Option(help="Seconds to wait for its end.", min=0)] = STOP_TIMEOUT_S,
    as_json: JsonOption = False,
) -> None:
    """End a run or a sweep in order, from another terminal: all is kept, and it can be gone on with."""
    directory = find_directory(run, out)
    read_state(directory)
    try:
        was_running = asyncio.run(request_stop(directory, timeout_s=timeout))
    except StopTimeoutError as error:
        raise CliError(str(error), hint="ask again, or end its process") from error
    except OSError as error:
        raise CliError(f"{directory}: {error.strerror or error}") from error
    state = read_state(directory)
    if as_json:
        print_json({"directory": str(directory), "was_running": was_running, "state": state})
        return
    print(f"{directory}: {'stopped' if was_running else 'does not run'}, its state is {state.replace('_', ' ')}")
    if state != "done":
        print(f"go on with it: ecumene resume {shlex.quote(str(directory))}")


def read_state(directory: Path) -> str:
    """Where a run or a sweep stands. Raises CliError."""
    try:
        if is_sweep(directory):
            return str(read_sweep(directory).get("state", ""))
        return str(read_manifest(directory).state)
    except ManifestError as error:
        raise CliError(str(error), exit_code=ExitCode.USAGE) from error
