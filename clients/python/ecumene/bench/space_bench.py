"""`ecumene bench space`: what moves, questions about who is near, and whole models cost, beside bare means and Mesa.

move_us        server CPU of a move that crosses the border of a region and meets and leaves others, events included
knn_us         server CPU of a question for the ten nearest; likewise radius_us
knn_table_us   server CPU of a row of a table, the ten nearest of everybody; likewise neighbours_us, within a radius
flock, town    CPU of all processes for a step of a model; mesa_ratio: Mesa's over ours
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial

from ecumene.bench.machine import describe_machine
from ecumene.bench.model_bench import ModelSizes, measure_models
from ecumene.bench.peers.absence import PeerSamples
from ecumene.bench.peers.spatial import measure_index
from ecumene.bench.processes import BenchError, make_directory, run_child
from ecumene.bench.results import Goal, Report, Result, take_median
from ecumene.bench.space_case import NEAREST, Crowd, SpaceCase
from ecumene.bench.targets import run_target

LOAD_MODULE = "ecumene.bench.space_load"
LIMIT_MODULE = "ecumene.bench.limits.bare_cells"
WORK_TIMEOUT_S = 600.0
SHAPES = ("plane", "grid")
BARE = "bare_cells"
LIBRARIES = ("rtree", "scipy_each", "scipy_batch")

Note = Callable[[str], None]
Figures = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured."""

    repeats: int
    entries: int
    moves: int
    queries: int
    models: ModelSizes


FULL = Sizes(3, 100_000, 100_000, 10_000, ModelSizes(3, (1_000, 3_000, 10_000), (50, 100), 5))
QUICK = Sizes(1, 4_000, 2_000, 500, ModelSizes(1, (200,), (16,), 2))

GOALS: Mapping[str, Goal] = {"move": Goal(at_most=100), "knn": Goal(at_most=50), "knn_table": Goal(at_most=50)}
MOVES = ("move", "move_walk", "move_region", "move_plain")
TABLES = ("neighbours", "knn_table")
QUERIES = ("knn", "radius", *TABLES)


async def bench_space(*, is_quick: bool, with_peers: bool = True, note: Note) -> Report:
    """Measure all figures. `note` is told what is being done.

    Raises:
        BenchError: a part failed or took too long, a move was lost, or two systems came to different ends.
        LaunchError: the server did not start.
    """
    machine = await asyncio.to_thread(describe_machine)
    sizes = QUICK if is_quick else FULL
    results: list[Result] = []
    for shape in SHAPES:
        results += await measure_shape(shape, sizes, note, with_peers=with_peers)
    results += await measure_models(sizes.models, note, with_mesa=with_peers)
    return Report("space", machine, results, is_quick)


async def measure_shape(shape: str, sizes: Sizes, note: Note, *, with_peers: bool) -> list[Result]:
    """Moves and questions in one shape of space."""
    ours: list[Figures] = []
    limits: list[Figures] = []
    peers = {name: PeerSamples() for name in (*QUERIES, "move_plain")}
    for repeat in range(sizes.repeats):
        note(f"{shape} of {sizes.entries:,} entries, sample {repeat + 1}")
        async with run_target("server") as (address, pid):
            case = SpaceCase(shape, address, pid, sizes.entries, sizes.moves, sizes.queries)
            ours.append(await run_case(LOAD_MODULE, case))
        limits.append(await run_case(LIMIT_MODULE, case))
        check_told(ours[-1], limits[-1])
        # A grid's distances are none of theirs.
        if with_peers and shape == "plane":
            await measure_peers(case, peers, note)
    suffix = "" if shape == "plane" else f"_{shape}"
    return [summarise(name, suffix, ours, limits, peers.get(name, PeerSamples())) for name in (*MOVES, *QUERIES)]


async def run_case(module: str, case: SpaceCase) -> Figures:
    """One sample, in a process of its own."""
    async with run_child(module, [json.dumps(asdict(case))]) as child:
        return await child.read(WORK_TIMEOUT_S)


def check_told(ours: Figures, limit: Figures) -> None:
    """Raises BenchError unless as much was told as the limit knows to have happened."""
    for name in MOVES:
        if abs(ours[f"{name}_told"] - limit[f"{name}_told"]) > 1e-9:
            raise BenchError(f"{name}: {ours[f'{name}_told']} events a move, and there were {limit[f'{name}_told']}")


async def measure_peers(case: SpaceCase, samples: Mapping[str, PeerSamples], note: Note) -> None:
    """Other indexes with the same entries."""
    async with make_directory() as directory:
        points = directory / "points.json"
        await asyncio.to_thread(points.write_text, json.dumps(Crowd(case).points), "ascii")
        for library in LIBRARIES:
            figures: dict[str, float] = {}

            async def measure(name: str, library: str = library, figures: dict[str, float] = figures) -> float:
                if not figures:
                    figures |= await measure_index(library, points, case.radius, NEAREST, case.queries)
                return figures[name]

            for name in _known(library):
                await samples[name].measure(library, partial(measure, name), note)


def _known(library: str) -> Sequence[str]:
    return {"rtree": ("move_plain", "knn", "radius"), "scipy_each": ("knn", "radius"), "scipy_batch": QUERIES}[library]


def summarise(name: str, suffix: str, ours: Sequence[Figures], limits: Sequence[Figures], peers: PeerSamples) -> Result:
    """One figure of a shape."""
    samples = [one[f"{name}_us"] for one in ours]
    details = {
        "server_us_op": take_median(samples),
        "client_us_op": take_median([one[f"{name}_client_us"] for one in ours]),
        "wall_us_op": take_median([one[f"{name}_wall_us"] for one in ours]),
    }
    if name in MOVES:
        details["events_a_move"] = take_median([one[f"{name}_told"] for one in ours])
        details["set_us"] = take_median([one["set_us"] for one in ours])
    if name in TABLES:
        details |= {key: take_median([one[f"{name}_{key}"] for one in ours]) for key in ("each", "tables")}
    beside = {BARE: take_median([one[f"{name}_us"] for one in limits])} | peers.medians()
    goal = GOALS.get(name)
    return Result(
        f"{name}_us{suffix}",
        take_median(samples),
        "µs",
        goal=goal,
        peers=beside,
        samples=samples,
        details=details,
        absent_peers=peers.absent,
    )
