"""`ecumene world`: create, list and delete worlds."""

from __future__ import annotations

from typing import Annotated

import typer

from ecumene.cli.connecting import DEFAULT_SERVER, JsonOption, ServerOption, run_with_server
from ecumene.cli.tables import print_json, print_table, to_document
from ecumene.client.model import WorldInfo
from ecumene.client.worlds import Worlds

app = typer.Typer(no_args_is_help=True)

NameArgument = Annotated[str, typer.Argument(help="Name of the world: a-z, 0-9 and -, at most 40.", metavar="NAME")]


@app.command("list")
def list_worlds(server: ServerOption = DEFAULT_SERVER, as_json: JsonOption = False) -> None:
    """List the worlds of a server."""
    show_worlds(run_with_server(server, Worlds.list), as_json)


@app.command()
def create(
    name: NameArgument,
    if_absent: Annotated[bool, typer.Option("--if-absent", help="Succeed if it is there already.")] = False,
    server: ServerOption = DEFAULT_SERVER,
    as_json: JsonOption = False,
) -> None:
    """Create an empty world."""
    created = run_with_server(server, lambda worlds: worlds.create(name, if_absent=if_absent))
    if as_json:
        print_json(to_document(created))
    else:
        print(f"{created.name} is at revision {created.revision:,} (history {created.history})")


@app.command()
def delete(
    name: NameArgument,
    history: Annotated[str, typer.Option(help="Only if the world has this history.", metavar="ID")] = "",
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    server: ServerOption = DEFAULT_SERVER,
    as_json: JsonOption = False,
) -> None:
    """Delete a world with all its data, for ever."""
    if not yes:
        typer.confirm(f"Delete the world {name} at {server} with all its data?", abort=True, err=True)
    run_with_server(server, lambda worlds: worlds.delete(name, history=history))
    if as_json:
        print_json({"deleted": name})
    else:
        print(f"deleted {name}")


def show_worlds(worlds: list[WorldInfo], as_json: bool) -> None:
    """Print worlds as a table or as JSON."""
    if as_json:
        print_json([to_document(world) for world in worlds])
        return
    print_table(
        ("world", "revision", "environments", "entries", "MiB", "history"),
        (
            (world.name, world.revision, world.environments, world.entries, mebibytes(world), world.history)
            for world in worlds
        ),
    )


def mebibytes(world: WorldInfo) -> float:
    """What a world takes on disk, in MiB, to a tenth."""
    return round(world.storage_bytes / (1024 * 1024), 1)
