"""`ecumene env`: read, change and watch environments and their entries, one op a command."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from ecumene.cli.arguments import parse_clock, parse_named, parse_object, parse_type, parse_value
from ecumene.cli.connecting import DEFAULT_SERVER, JsonOption, ServerOption, WorldOption, run_in_world
from ecumene.cli.env_output import describe_environment, show_entries, show_entry, show_event, show_written
from ecumene.cli.failures import CliError, UsageError
from ecumene.cli.positions import locate, parse_place, space_document
from ecumene.cli.story import story
from ecumene.cli.tables import print_json, print_table, show_cell, to_document
from ecumene.client.actions import Conditions
from ecumene.client.clocks import Clock, ClockState
from ecumene.client.environment import Environment
from ecumene.client.model import Aggregates, Entry, EnvironmentInfo, EventFilter, Json, Written
from ecumene.client.reasons import OperationRefusedError
from ecumene.client.spaces import Space
from ecumene.client.world import World

app = typer.Typer(no_args_is_help=True)
app.command()(story)

PathArgument = Annotated[str, typer.Argument(help="Path of the environment, such as /town.", metavar="PATH")]
KeyArgument = Annotated[str, typer.Argument(help="Key of the entry; none = the environment.", metavar="KEY")]
Texts = list[str]


@app.command()
def get(
    path: PathArgument,
    key: KeyArgument = "",
    inherit: Annotated[bool, typer.Option("--inherit", help="Look in the environments above too.")] = False,
    server: ServerOption = DEFAULT_SERVER,
    world: WorldOption = "main",
    as_json: JsonOption = False,
) -> None:
    """Show an entry, or an environment."""

    async def read(opened: World) -> Entry | tuple[EnvironmentInfo, Aggregates, ClockState | None]:
        environment = opened.environment(path)
        if key:
            return await environment.get(key, inherit=inherit)
        described = await environment.describe()
        clock = None if described.clock is None else await environment.clock().state()
        return described, await environment.aggregates(), clock

    found = run_in_world(server, world, read)
    if isinstance(found, Entry):
        show_entry(found, as_json)
        return
    described, aggregates, clock = found
    if as_json:
        values = {name: to_document(value) for name, value in aggregates.values.items()}
        state = None if clock is None else to_document(clock)
        told = {"space": space_document(described.space), "aggregate_values": values, "clock_state": state}
        print_json(to_document(described) | told)
    else:
        print_table(("what", "value"), describe_environment(described, aggregates, clock))


@app.command("set")
def set_entry(
    path: PathArgument,
    key: KeyArgument = "",
    value: Annotated[str | None, typer.Argument(help="JSON, or else a string.", metavar="VALUE")] = None,
    expect_version: Annotated[
        int | None, typer.Option(help="Only if it has this version; 0 = it is absent.", metavar="N")
    ] = None,
    at: Annotated[str, typer.Option(help="Move it there, too: a position, or a node.", metavar="X,Y")] = "",
    kind: Annotated[str, typer.Option(help="Without KEY: kind of the environment to create.")] = "",
    config: Annotated[str, typer.Option(help="Without KEY: its config, a JSON object.")] = "",
    clock: Annotated[str, typer.Option(help="Without KEY: manual, realtime or event-driven.", metavar="MODE")] = "",
    server: ServerOption = DEFAULT_SERVER,
    world: WorldOption = "main",
    as_json: JsonOption = False,
) -> None:
    """Set an entry to a value; without KEY, create the environment unless it is there."""
    settings = parse_object(config, "--config")
    own_clock = parse_clock(clock)
    if key and (kind or config or clock):
        raise UsageError("--kind, --config and --clock belong to an environment, not to an entry")
    if key and value is None:
        raise UsageError(f"what shall {key} be?", hint=f"ecumene env set {path} {key} VALUE")
    if at and not key:
        raise UsageError("an entry has a position, not an environment: which KEY?")
    place = parse_place(at) if at else None
    conditions: Conditions = {} if expect_version is None else {"expect_version": expect_version}

    async def write(opened: World) -> Written:
        environment = opened.environment(path)
        if not key:
            return await create_unless_there(environment, kind, settings, own_clock)
        position = None if place is None else await locate(environment, place)
        return await environment.set(key, parse_value(value or ""), position=position, **conditions)

    show_written(run_in_world(server, world, write), as_json)


@app.command()
def ls(
    path: PathArgument = "/",
    prefix: Annotated[str, typer.Option(help="Only names and keys that begin so.")] = "",
    limit: Annotated[int, typer.Option(help="At most so many of each.", min=1)] = 1000,
    server: ServerOption = DEFAULT_SERVER,
    world: WorldOption = "main",
    as_json: JsonOption = False,
) -> None:
    """List the environments and the entries in an environment."""

    async def read(opened: World) -> tuple[list[EnvironmentInfo], list[Entry], Space | None]:
        environment = opened.environment(path)
        entries = await take(environment.entries(prefix), limit)
        space = (await environment.describe()).space if any(entry.position for entry in entries) else None
        return await take(environment.children(prefix), limit), entries, space

    children, entries, space = run_in_world(server, world, read)
    if as_json:
        print_json(
            {
                "environments": [to_document(child) for child in children],
                "entries": [to_document(entry) for entry in entries],
            }
        )
        return
    if children:
        print_table(
            ("environment", "kind", "entries", "children"),
            ((child.path, child.kind, child.entry_count, child.child_count) for child in children),
        )
    if entries:
        show_entries(entries, space)
    if not children and not entries:
        print(f"nothing in {path}")


@app.command()
def rm(
    path: PathArgument,
    key: KeyArgument = "",
    recursive: Annotated[bool, typer.Option("--recursive", "-r", help="With all below it.")] = False,
    server: ServerOption = DEFAULT_SERVER,
    world: WorldOption = "main",
    as_json: JsonOption = False,
) -> None:
    """Delete an entry, or an environment with its entries."""

    async def write(opened: World) -> Written:
        environment = opened.environment(path)
        return await environment.delete(key) if key else await environment.unregister(recursive=recursive)

    show_written(run_in_world(server, world, write), as_json)


@app.command()
def watch(
    path: PathArgument = "/",
    types: Annotated[Texts | None, typer.Option("--type", help="Only events of this type; may repeat.")] = None,
    from_revision: Annotated[int, typer.Option(help="Replay from here; 0 = from now on.", min=0)] = 0,
    initial_state: Annotated[bool, typer.Option("--initial-state", help="What is there now, first.")] = False,
    count: Annotated[int, typer.Option(help="End after so many events; 0 = never.", min=0)] = 0,
    server: ServerOption = DEFAULT_SERVER,
    world: WorldOption = "main",
    as_json: JsonOption = False,
) -> None:
    """Print the events of an environment and all below it as they happen, one a line."""
    wanted = EventFilter(path_prefix=path, types=tuple(parse_type(name) for name in types or ()))

    async def read(opened: World) -> None:
        seen = 0
        async with opened.watch(wanted, from_revision=from_revision, initial_state=initial_state) as events:
            async for event in events:
                show_event(event, as_json)
                seen += 1
                if seen == count:
                    return

    run_in_world(server, world, read)


@app.command()
def invoke(
    path: PathArgument,
    operation: Annotated[str, typer.Argument(help="Name of the operation.", metavar="OPERATION")],
    arguments: Annotated[
        Texts | None, typer.Argument(help="NAME=VALUE, the value as JSON or a string.", metavar="ARGUMENTS")
    ] = None,
    server: ServerOption = DEFAULT_SERVER,
    world: WorldOption = "main",
    as_json: JsonOption = False,
) -> None:
    """Run an operation of an environment's behaviour and print what it returns."""
    named = parse_named(arguments or ())
    try:
        done = run_in_world(server, world, lambda opened: opened.environment(path).run(operation, named))
    except OperationRefusedError as error:
        raise CliError(f"refused with {error.refusal_code}: {error}") from error
    if as_json:
        print_json(to_document(done))
    else:
        print(json.dumps(done.result, indent=2, ensure_ascii=False))


async def create_unless_there(
    environment: Environment, kind: str, config: dict[str, Json], clock: Clock | None = None
) -> Written:
    """Create an environment; one that is there stays as it is, but is given a clock if it has none.

    Raises CliError if that is not what was asked for.
    """
    done = await environment.register(kind=kind, config=config, clock=clock, if_absent=True)
    if not done.changed and (kind or config or clock):
        there = await environment.describe()
        if kind and there.kind != kind:
            raise CliError(f"{there.path} is there already, of kind {there.kind}, not {kind}")
        if config and there.config != config:
            raise CliError(f"{there.path} is there already, with another config: {show_cell(there.config)}")
        if clock and there.clock is None:
            return await environment.change(clock=clock)
        if clock and there.clock and there.clock.mode != clock.mode:
            found = there.clock.mode.replace("_", "-")
            raise CliError(f"{there.path} is there already, with another clock: {found}")
    return done


async def take(found: Any, limit: int) -> list[Any]:
    """The first of what a listing yields."""
    taken: list[Any] = []
    async for item in found:
        taken.append(item)
        if len(taken) == limit:
            break
    return taken
