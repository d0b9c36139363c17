"""`ecumene world`: create, list, copy and delete worlds."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from ecumene.cli.connecting import DEFAULT_SERVER, JsonOption, ServerOption, run_with_server
from ecumene.cli.tables import print_json, print_table, show_time, to_document
from ecumene.client.model import WorldInfo
from ecumene.client.snapshots import SnapshotInfo
from ecumene.client.worlds import Worlds

app = typer.Typer(no_args_is_help=True)

NameArgument = Annotated[str, typer.Argument(help="Name of the world: a-z, 0-9 and -, at most 40.", metavar="NAME")]
NewNameArgument = Annotated[str, typer.Argument(help="Name of the new world.", metavar="NEW")]
SnapshotArgument = Annotated[str, typer.Argument(help="Name of the snapshot.", metavar="SNAPSHOT")]


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


@app.command()
def snapshot(
    name: NameArgument = "main",
    to: Annotated[str, typer.Option("--to", help="Name of the snapshot; else it gets one.", metavar="NAME")] = "",
    server: ServerOption = DEFAULT_SERVER,
    as_json: JsonOption = False,
) -> None:
    """Copy a world as it stands, while it goes on. The server keeps the copy."""
    taken = run_with_server(server, lambda worlds: worlds.snapshot(name, to))
    if as_json:
        print_json(to_document(taken))
    else:
        print(f"{taken.name} holds {name} at revision {taken.origin.revision:,} ({mebibytes(taken.size_bytes)} MiB)")


@app.command()
def snapshots(
    name: Annotated[str, typer.Argument(help="Only of this world.", metavar="NAME")] = "",
    server: ServerOption = DEFAULT_SERVER,
    as_json: JsonOption = False,
) -> None:
    """List the snapshots that a server keeps, oldest first."""

    async def read(worlds: Worlds) -> tuple[list[SnapshotInfo], list[str]]:
        return await worlds.snapshots(name), await worlds.damaged_snapshots()

    found, damaged = run_with_server(server, read)
    if as_json:
        print_json([to_document(one) for one in found])
    else:
        print_table(
            ("snapshot", "world", "revision", "kept from", "MiB", "taken"),
            (
                (
                    one.name,
                    one.origin.world,
                    one.origin.revision,
                    one.first_retained_revision,
                    mebibytes(one.size_bytes),
                    show_time(one.wall_time_ns),
                )
                for one in found
            ),
        )
    if damaged:
        print(f"ecumene: cannot be read: {', '.join(damaged)}", file=sys.stderr)


@app.command("rm-snapshot")
def remove_snapshot(
    name: SnapshotArgument,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    server: ServerOption = DEFAULT_SERVER,
    as_json: JsonOption = False,
) -> None:
    """Delete a snapshot, for ever."""
    if not yes:
        typer.confirm(f"Delete the snapshot {name} at {server}?", abort=True, err=True)
    run_with_server(server, lambda worlds: worlds.delete_snapshot(name))
    if as_json:
        print_json({"deleted": name})
    else:
        print(f"deleted {name}")


@app.command()
def restore(
    name: SnapshotArgument,
    new_name: NewNameArgument,
    server: ServerOption = DEFAULT_SERVER,
    as_json: JsonOption = False,
) -> None:
    """Make a new world of a snapshot, with a history of its own."""
    show_copy(run_with_server(server, lambda worlds: worlds.restore(name, new_name)), as_json)


@app.command()
def fork(
    name: NameArgument,
    new_name: NewNameArgument,
    server: ServerOption = DEFAULT_SERVER,
    as_json: JsonOption = False,
) -> None:
    """Make a new world that begins as another one stands now."""
    show_copy(run_with_server(server, lambda worlds: worlds.fork(name, new_name)), as_json)


@app.command()
def compact(
    name: NameArgument = "main",
    revision: Annotated[int, typer.Option(help="Oldest revision to keep; 0 = the present one.", min=0)] = 0,
    server: ServerOption = DEFAULT_SERVER,
    as_json: JsonOption = False,
) -> None:
    """Forget a world's events below a revision; its state stays."""
    first = run_with_server(server, lambda worlds: worlds.compact(name, revision))
    if as_json:
        print_json({"world": name, "first_retained_revision": first})
    else:
        print(f"{name} keeps its events from revision {first:,} on")


def show_copy(made: WorldInfo, as_json: bool) -> None:
    """Print a world that began as a copy."""
    if as_json:
        print_json(to_document(made))
        return
    origin = made.restored_from
    came = f", from {origin.world} at revision {origin.revision:,}" if origin is not None else ""
    print(f"{made.name} is at revision {made.revision:,} (history {made.history}){came}")


def show_worlds(worlds: list[WorldInfo], as_json: bool) -> None:
    """Print worlds as a table or as JSON."""
    if as_json:
        print_json([to_document(world) for world in worlds])
        return
    print_table(
        ("world", "revision", "kept from", "environments", "entries", "MiB", "open", "copy of"),
        (
            (
                world.name,
                world.revision,
                world.first_retained_revision,
                world.environments,
                world.entries,
                mebibytes(world.storage_bytes),
                "yes" if world.open else "no",
                f"{world.restored_from.world} at {world.restored_from.revision:,}" if world.restored_from else "-",
            )
            for world in worlds
        ),
    )
    for world in worlds:
        if world.storage_low:
            what = f"{mebibytes(world.storage_bytes)} MiB of storage are in use"
            print(f"ecumene: {world.name} runs low: {what}; delete or compact", file=sys.stderr)


def mebibytes(size_bytes: int) -> float:
    """Bytes in MiB, to a tenth."""
    return round(size_bytes / (1024 * 1024), 1)
