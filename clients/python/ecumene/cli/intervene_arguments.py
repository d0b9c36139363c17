"""What the commands of `ecumene intervene` take."""

from __future__ import annotations

from typing import Annotated

import typer

from ecumene.cli.failures import UsageError
from ecumene.client.model import Json
from ecumene.client.runtime_nodes import read_json

RunArgument = Annotated[str, typer.Argument(help="Name of the run.", metavar="RUN")]
AgentArgument = Annotated[str, typer.Argument(help="Id of the agent.", metavar="AGENT")]
ActorOption = Annotated[str, typer.Option("--actor", help="Who intervenes; recorded.", metavar="NAME")]
CommentOption = Annotated[str, typer.Option("--comment", help="Why; recorded.", metavar="TEXT")]


def parse_value(text: str) -> Json:
    """JSON, or a text. Raises UsageError for what begins as a document and is none."""
    try:
        return read_json(text.encode())
    except ValueError as error:
        if text.lstrip().startswith(("{", "[")):
            raise UsageError(f"{text} is no JSON: {error}") from error
        return text
