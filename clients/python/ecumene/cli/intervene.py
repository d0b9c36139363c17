"""`ecumene intervene`: reach into a run from outside; each time a note says who did what."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated

import typer

from ecumene.cli.arguments import parse_named, parse_object
from ecumene.cli.connecting import DEFAULT_SERVER, JsonOption, ServerOption, WorldOption, run_in_world
from ecumene.cli.intervene_arguments import ActorOption, AgentArgument, CommentOption, RunArgument, parse_value
from ecumene.cli.seat import seat
from ecumene.cli.tables import print_json, show_cell, to_document
from ecumene.client.runtime_model import Intervention
from ecumene.client.runtime_nodes import RuntimeNode
from ecumene.launch.node_runs import use_host

app = typer.Typer(no_args_is_help=True)

PathArgument = Annotated[str, typer.Argument(help="Path of the environment.", metavar="PATH")]
KeyArgument = Annotated[str, typer.Argument(help="Key of the entry.", metavar="KEY")]
ValueArgument = Annotated[str, typer.Argument(help="JSON, or a text.", metavar="VALUE")]

app.command()(seat)


@app.command()
def mute(
    run: RunArgument,
    agent: AgentArgument,
    actor: ActorOption,
    off: Annotated[bool, typer.Option("--off", help="Let it take turns again.")] = False,
    comment: CommentOption = "",
    server: ServerOption = DEFAULT_SERVER,
    world: WorldOption = "main",
    as_json: JsonOption = False,
) -> None:
    """Let an agent take no turns until it is unmuted."""
    _do(
        (server, world, run, agent),
        lambda node: node.mute(run, agent, actor=actor, comment=comment, muted=not off),
        as_json,
    )


@app.command()
def tell(
    run: RunArgument,
    agent: AgentArgument,
    text: Annotated[str, typer.Argument(help="What it is told.", metavar="TEXT")],
    actor: ActorOption,
    comment: CommentOption = "",
    server: ServerOption = DEFAULT_SERVER,
    world: WorldOption = "main",
    as_json: JsonOption = False,
) -> None:
    """Tell an agent something, which it remembers."""
    _do((server, world, run, agent), lambda node: node.tell(run, agent, text, actor=actor, comment=comment), as_json)


@app.command("set")
def set_entry(
    run: RunArgument,
    path: PathArgument,
    key: KeyArgument,
    value: ValueArgument,
    actor: ActorOption,
    comment: CommentOption = "",
    server: ServerOption = DEFAULT_SERVER,
    world: WorldOption = "main",
    as_json: JsonOption = False,
) -> None:
    """Set an entry of the world."""
    plain = parse_value(value)
    _do(
        (server, world, run, ""),
        lambda node: node.edit_entry(run, path, key, plain, actor=actor, comment=comment),
        as_json,
    )


@app.command()
def append(
    run: RunArgument,
    path: PathArgument,
    key: KeyArgument,
    value: ValueArgument,
    actor: ActorOption,
    comment: CommentOption = "",
    server: ServerOption = DEFAULT_SERVER,
    world: WorldOption = "main",
    as_json: JsonOption = False,
) -> None:
    """Inject an event: append to a stream of the world."""
    plain = parse_value(value)
    _do(
        (server, world, run, ""),
        lambda node: node.append_event(run, path, key, plain, actor=actor, comment=comment),
        as_json,
    )


@app.command()
def invoke(
    run: RunArgument,
    path: PathArgument,
    operation: Annotated[str, typer.Argument(help="Name of the operation.", metavar="OPERATION")],
    actor: ActorOption,
    arguments: Annotated[
        list[str] | None, typer.Argument(help="NAME=VALUE, the value as JSON or a string.", metavar="ARGUMENTS")
    ] = None,
    args: Annotated[str, typer.Option("--args", help="Arguments as one JSON object.", metavar="JSON")] = "",
    comment: CommentOption = "",
    server: ServerOption = DEFAULT_SERVER,
    world: WorldOption = "main",
    as_json: JsonOption = False,
) -> None:
    """Inject what an operation of a behaviour emits."""
    given = parse_object(args, "--args") | parse_named(arguments or ())
    _do(
        (server, world, run, ""),
        lambda node: node.run_operation(run, path, operation, given, actor=actor, comment=comment),
        as_json,
    )


def _do(where: tuple[str, str, str, str], act: Callable[[RuntimeNode], Awaitable[Intervention]], as_json: bool) -> None:
    """Intervene through the node that hosts the agent, or any that hosts the run."""
    server, world, run, agent = where
    done = run_in_world(server, world, lambda opened: use_host(opened, run, act, agent=agent))
    if as_json:
        print_json(to_document(done))
    else:
        result = "" if done.result is None else f": {show_cell(done.result)}"
        print(f"done in revision {done.revision:,}, noted as {done.note}{result}")
