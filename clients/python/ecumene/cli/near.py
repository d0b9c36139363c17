"""`ecumene near`: who is near an entry or a position."""

from __future__ import annotations

from typing import Annotated

import typer

from ecumene.cli.connecting import DEFAULT_SERVER, JsonOption, ServerOption, WorldOption, run_in_world
from ecumene.cli.failures import UsageError
from ecumene.cli.positions import locate, parse_box, parse_place, show_place
from ecumene.cli.tables import print_json, print_table
from ecumene.client.spaces import Space
from ecumene.client.surroundings import Nearby
from ecumene.client.world import World

METRES_MIN = 10_000
"""From here on a distance is shown without decimals."""


def near(
    path: Annotated[str, typer.Argument(help="Path of the environment, such as /town.", metavar="PATH")],
    key: Annotated[str, typer.Option(help="Near this entry.", metavar="KEY")] = "",
    at: Annotated[str, typer.Option(help="Near this position, or node of a graph.", metavar="X,Y")] = "",
    radius: Annotated[float | None, typer.Option(help="Within this distance.", metavar="R")] = None,
    nearest: Annotated[int | None, typer.Option(help="So many at most.", metavar="N", min=1)] = None,
    adjacent: Annotated[bool, typer.Option("--adjacent", help="In the same cell or node, and next to it.")] = False,
    hops: Annotated[bool, typer.Option("--hops", help="Graphs: count edges, whatever their weights.")] = False,
    box: Annotated[str, typer.Option(help="All between two corners, instead.", metavar="X,Y,X,Y")] = "",
    limit: Annotated[int, typer.Option(help="Show at most so many.", min=1)] = 100,
    server: ServerOption = DEFAULT_SERVER,
    world: WorldOption = "main",
    as_json: JsonOption = False,
) -> None:
    """Show who is near, the nearest first."""
    asked = [name for name, value in (("radius", radius), ("nearest", nearest)) if value is not None]
    asked += ["adjacent"] if adjacent else []
    if box:
        if key or at or asked:
            raise UsageError("--box asks for all inside: leave out near what, and how near")
    elif key and at:
        raise UsageError("--key and --at: give one of the two")
    elif not (key or at):
        raise UsageError("near what?", hint="give --key or --at, or --box")
    elif len(asked) > 1:
        raise UsageError(f"{' and '.join(f'--{name}' for name in asked)}: give one of them")
    elif not asked:
        raise UsageError("how near?", hint="give one of --radius, --nearest, --adjacent")
    corners = parse_box(box) if box else None
    place = parse_place(at) if at else ()

    async def read(opened: World) -> tuple[Nearby, Space | None]:
        environment = opened.environment(path)
        who = None if corners is not None else key or await locate(environment, place)
        found = await environment.near(
            who, radius=radius, nearest=nearest, adjacent=adjacent, box=corners, hops=hops, limit=limit
        )
        return found, (await environment.describe()).space if found else None

    found, space = run_in_world(server, world, read)
    if as_json:
        print_json({"near": [row._asdict() for row in found], "more": found.more, "revision": found.revision})
        return
    if not found:
        print(f"nobody is in {box}" if box else f"nobody is near {key or at}")
        return
    rows = ((row.key, show_distance(row.distance), show_place(row.position, space)) for row in found)
    print_table(("key", "distance", "position"), rows)
    if found.more:
        print(f"and more: see --limit {limit * 10}")


def show_distance(distance: float | None) -> float | None:
    """A distance with its digits: metres on the earth are many."""
    return distance if distance is None or distance < METRES_MIN else round(distance)
