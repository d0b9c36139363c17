"""`ecumene nodes`: the nodes that host agents, and the runs on them."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from ecumene.cli.connecting import DEFAULT_SERVER, JsonOption, ServerOption, WorldOption, run_in_world
from ecumene.cli.failures import CliError, missing_extra
from ecumene.cli.tables import print_json, print_table, show_count, show_time, to_document
from ecumene.client.runtime_model import LogLine, NodeInfo, NodeRecord, PartInfo
from ecumene.client.runtime_nodes import RuntimeNode
from ecumene.client.world import World
from ecumene.launch.node_runs import clean_up_run, inspect_nodes, launch_run, list_nodes, stop_run

app = typer.Typer(no_args_is_help=True)
MIB = 1024 * 1024

Answer = TypeVar("Answer")

RunArgument = Annotated[str, typer.Argument(help="Name of the run.", metavar="RUN")]
NodeArgument = Annotated[str, typer.Argument(help="Name of the node.", metavar="NODE")]
DrainOption = Annotated[float, typer.Option("--drain", help="Seconds that turns may take to end.", min=0)]


@app.command("list")
def list_all(server: ServerOption = DEFAULT_SERVER, world: WorldOption = "main", as_json: JsonOption = False) -> None:
    """List the nodes of a world, with what they host."""
    infos = run_in_world(server, world, inspect_nodes)
    if as_json:
        print_json([to_document(info) for info in infos])
        return
    print_table(
        ("node", "address", "agents", "capacity", "runs", "workers", "labels", "state"),
        (
            (
                info.name,
                info.address,
                info.agents,
                info.capacity,
                ", ".join(run.run for run in info.runs) or "-",
                sum(len(run.workers) for run in info.runs),
                ", ".join(f"{name}={value}" for name, value in info.labels.items()) or "-",
                "draining" if info.is_draining else "ready",
            )
            for info in infos
        ),
    )


@app.command()
def show(
    name: NodeArgument,
    server: ServerOption = DEFAULT_SERVER,
    world: WorldOption = "main",
    as_json: JsonOption = False,
) -> None:
    """Show one node: its runs, their parts and workers."""
    info = run_in_world(server, world, lambda opened: _with_node(opened, name, RuntimeNode.inspect))
    if as_json:
        print_json(to_document(info))
        return
    print_table(("what", "value"), describe_node(info))
    for run in info.runs:
        print_table(
            ("part", "agents", "condition", "worker", "term", "through", "running", "waiting", "reason"),
            [describe_part(part) for part in run.parts],
            title=f"run {run.run}: {show_count(run.agents, 'agent')}",
        )
        print_table(
            ("worker", "pid", "restarts", "cpu s", "MiB", "last failure"),
            (
                (one.index, one.pid, one.restarts, one.cpu_s, round(one.rss_anon_bytes / MIB, 1), one.last_failure)
                for one in run.workers
            ),
        )


@app.command()
def launch(
    spec: Annotated[Path, typer.Argument(help="Launch description, a JSON file.", metavar="FILE")],
    server: ServerOption = DEFAULT_SERVER,
    world: WorldOption = "main",
    as_json: JsonOption = False,
) -> None:
    """Launch a run over the nodes of a world, where there is room."""
    from ecumene.launch.launch_files import read_launch

    try:
        document, agents = read_launch(spec)
    except ModuleNotFoundError as error:
        raise missing_extra("nodes launch", "runtime") from error
    launched = run_in_world(server, world, lambda opened: launch_run(opened, document, agents))
    if as_json:
        print_json([to_document(one) for one in launched])
    else:
        print_table(("node", "agents", "parts"), ((one.node, one.agents, len(one.parts)) for one in launched))


@app.command()
def stop(
    run: RunArgument,
    drain: DrainOption = 0.0,
    server: ServerOption = DEFAULT_SERVER,
    world: WorldOption = "main",
    as_json: JsonOption = False,
) -> None:
    """End a run on all nodes. What its agents did stays."""
    parts = run_in_world(server, world, lambda opened: stop_run(opened, run, drain_s=drain))
    if as_json:
        print_json([to_document(part) for part in parts])
    else:
        agents = sum(len(part.span) for part in parts)
        print(f"stopped {run}: {show_count(agents, 'agent')} in {show_count(len(parts), 'part')}")


@app.command("clean-up")
def clean_up(
    run: RunArgument,
    server: ServerOption = DEFAULT_SERVER,
    world: WorldOption = "main",
    as_json: JsonOption = False,
) -> None:
    """Delete what is kept of a stopped run: its description and agents. What they did in the world stays."""
    existed = run_in_world(server, world, lambda opened: clean_up_run(opened, run))
    if as_json:
        print_json({"run": run, "existed": existed})
    else:
        print(f"cleaned up {run}" if existed else f"nothing is left of {run}")


@app.command()
def drain(
    name: NodeArgument,
    drain: DrainOption = 0.0,
    server: ServerOption = DEFAULT_SERVER,
    world: WorldOption = "main",
    as_json: JsonOption = False,
) -> None:
    """Let a node take no more agents, and hand over those that it has."""
    parts = run_in_world(server, world, lambda opened: _with_node(opened, name, lambda node: node.drain(drain_s=drain)))
    if as_json:
        print_json([to_document(part) for part in parts])
    else:
        print(f"{name} takes no more, and gave {show_count(sum(len(part.span) for part in parts), 'agent')} back")


@app.command()
def logs(
    name: NodeArgument,
    run: Annotated[str, typer.Option(help="Only of this run.", metavar="RUN")] = "",
    lines: Annotated[int, typer.Option(help="The newest so many; 0 = all that are kept.", min=0)] = 0,
    follow: Annotated[bool, typer.Option("--follow", help="Go on with what comes.")] = False,
    server: ServerOption = DEFAULT_SERVER,
    world: WorldOption = "main",
    as_json: JsonOption = False,
) -> None:
    """Show what a node and its workers wrote."""

    async def read(node: RuntimeNode) -> int:
        shown = 0
        async for line in node.logs(run, lines_max=lines, follow=follow):
            show_line(line, as_json)
            shown += 1
        return shown

    if not run_in_world(server, world, lambda opened: _with_node(opened, name, read)):
        print(f"{name} has written nothing" + (f" of run {run}" if run else ""), file=sys.stderr)


def show_line(line: LogLine, as_json: bool) -> None:
    """Print a line of a log."""
    if as_json:
        print_json(to_document(line))
        return
    who = f"[{line.run} worker {line.worker}] " if line.run else ""
    print(f"{show_time(line.wall_time_ns)} {who}{line.text}", flush=True)


def describe_node(info: NodeInfo) -> list[tuple[str, object]]:
    """A node as lines of two."""
    return [
        ("node", info.name),
        ("address", info.address),
        ("world", info.world),
        ("agents", f"{info.agents:,} of {info.capacity:,}"),
        ("state", "draining" if info.is_draining else "ready"),
        ("labels", ", ".join(f"{name}={value}" for name, value in info.labels.items()) or "-"),
        ("providers", ", ".join(info.providers)),
        ("workers of a run", info.workers),
        ("versions", ", ".join(f"{name} {version}" for name, version in info.versions.items())),
    ]


def describe_part(part: PartInfo) -> tuple[object, ...]:
    """A part as a row."""
    figures = part.statistics
    return (
        part.span.name,
        len(part.span),
        part.condition.name.lower().replace("_", " "),
        part.worker,
        part.term,
        part.through_revision,
        figures.get("running", 0),
        figures.get("mailed", 0),
        part.reason,
    )


async def _with_node(world: World, name: str, use: Callable[[RuntimeNode], Awaitable[Answer]]) -> Answer:
    """Use a node by its name. Raises CliError: there is none."""
    records: list[NodeRecord] = await list_nodes(world)
    found = next((record for record in records if record.name == name), None)
    if found is None:
        known = ", ".join(record.name for record in records) or "none"
        raise CliError(f"no node {name!r} lives in world {world.name}", hint=f"there are: {known}")
    async with RuntimeNode(found.address) as node:
        return await use(node)
