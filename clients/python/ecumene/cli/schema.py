"""`ecumene schema`: the JSON schema of specs, for an editor."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ecumene.cli.failures import CliError
from ecumene.sim.specs.schema import dump_schema


def schema(
    out: Annotated[Path | None, typer.Option(help="Write it to this file instead.", metavar="FILE")] = None,
) -> None:
    """Print the JSON schema of specs: editors complete and check specs by it."""
    if out is None:
        print(dump_schema(), end="")
        return
    try:
        out.write_text(dump_schema(), encoding="utf-8")
    except OSError as error:
        raise CliError(f"{out} cannot be written: {error.strerror}") from error
