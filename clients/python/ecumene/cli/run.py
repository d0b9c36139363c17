"""`ecumene run`: execute the experiment that a spec describes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ecumene.cli.connecting import DEFAULT_SERVER, JsonOption, check_address
from ecumene.cli.running import execute
from ecumene.cli.sweeping import execute_sweep
from ecumene.sim import RunOptions, load_spec


def run(
    spec: Annotated[Path, typer.Argument(help="The spec, a YAML file.", metavar="SPEC.yaml")],
    server: Annotated[
        str | None,
        typer.Option(
            help=f"Use this server instead of one of the run's own (with --nodes: {DEFAULT_SERVER}).",
            envvar="ECUMENE_SERVER",
            metavar="ADDRESS",
        ),
    ] = None,
    nodes: Annotated[
        bool, typer.Option("--nodes", help="Let the agents live on the nodes of the server's world.")
    ] = False,
    workers: Annotated[int | None, typer.Option(help="Processes of the runtime (by size).", min=1)] = None,
    seed: Annotated[int | None, typer.Option(help="Instead of the spec's.", min=0, max=2**63 - 1)] = None,
    out: Annotated[Path | None, typer.Option(help="Instead of the spec's recording.directory.", metavar="DIR")] = None,
    as_json: JsonOption = False,
) -> None:
    """Execute the experiment that a spec describes."""
    if server is None and nodes:
        server = DEFAULT_SERVER
    if server is not None:
        check_address(server)
    loaded = load_spec(spec)
    if seed is not None:
        loaded = loaded.model_copy(update={"seed": seed})
    if out is not None:
        recording = loaded.recording.model_copy(update={"directory": out})
        loaded = loaded.model_copy(update={"recording": recording})
    options = RunOptions(server=server, workers=workers, over_nodes=nodes)
    if loaded.sweep is None:
        execute(loaded, options, as_json=as_json)
    else:
        execute_sweep(loaded, options, as_json=as_json)
