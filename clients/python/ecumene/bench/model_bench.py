"""Models in a world, beside the same in Mesa: a part of `ecumene bench space`."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ecumene.bench.model_case import Model, make_flock, make_town
from ecumene.bench.peers.absence import PeerSamples
from ecumene.bench.peers.spatial import measure_model
from ecumene.bench.processes import BenchError, make_directory, run_child
from ecumene.bench.results import Goal, Result, take_median
from ecumene.bench.targets import run_target

LOAD_MODULE = "ecumene.bench.model_load"
WORK_TIMEOUT_S = 600.0
TIMES_MESA = 10
ROUNDING = 1e-6
"""Relative; birds add up what they see in other orders."""

Note = Callable[[str], None]
Figures = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class ModelSizes:
    """How much is measured."""

    repeats: int
    flocks: tuple[int, ...]
    towns: tuple[int, ...]
    steps: int

    def models(self) -> Iterator[tuple[str, Model]]:
        """Each with its name."""
        for birds in self.flocks:
            yield f"flock_{birds}", make_flock(birds, self.steps)
        for side in self.towns:
            yield f"town_{side}x{side}", make_town(side, self.steps)


async def measure_models(sizes: ModelSizes, note: Note, *, with_mesa: bool) -> list[Result]:
    """CPU of a step of each model, and how many times more Mesa needs.

    Raises:
        BenchError: a part failed, or two systems came to different ends.
    """
    results: list[Result] = []
    for name, model in sizes.models():
        ours: list[Figures] = []
        mesas: list[Figures] = []
        peers = PeerSamples()
        for repeat in range(sizes.repeats):
            note(f"{name}, sample {repeat + 1}")
            async with make_directory() as directory:
                path = directory / "model.json"
                await asyncio.to_thread(model.write, path)
                ours.append(await run_model(path))
                if with_mesa:
                    await peers.measure("mesa", partial(measure_peer, "mesa", path, model, ours[-1], mesas), note)
                    if model.name == "flock":
                        await peers.measure("arrays", partial(measure_peer, "arrays", path, model, ours[-1], []), note)
        results += summarise(name, model, ours, mesas, peers)
    return results


async def run_model(path: Path) -> Figures:
    """One sample in a world."""
    async with (
        run_target("server") as (address, pid),
        run_child(LOAD_MODULE, [str(path), address, str(pid)]) as child,
    ):
        return await child.read(WORK_TIMEOUT_S)


async def measure_peer(system: str, path: Path, model: Model, ours: Figures, kept: list[Figures]) -> float:
    """One sample of another system: milliseconds of CPU a step.

    Raises PeerAbsentError, BenchError.
    """
    figures = await measure_model(system, path)
    if not math.isclose(figures["end"], ours["end"], rel_tol=ROUNDING):
        raise BenchError(f"{system} came to {figures['end']}, and we to {ours['end']}")
    kept.append(figures)
    return 1e3 * figures["cpu_s"] / model.steps


def summarise(
    name: str, model: Model, ours: Sequence[Figures], mesas: Sequence[Figures], peers: PeerSamples
) -> list[Result]:
    """CPU a step, and Mesa's over ours, samples in pairs."""
    samples = [1e3 * one["cpu_s"] / model.steps for one in ours]
    details = {
        "agents": float(len(model.places)),
        "server_ms": take_median([1e3 * one["server_cpu_s"] / model.steps for one in ours]),
        "wall_ms": take_median([1e3 * one["wall_s"] / model.steps for one in ours]),
    }
    figure = Result(
        f"{name}_ms", take_median(samples), "ms", None, None, peers.medians(), samples, details, peers.absent
    )
    if len(mesas) < len(ours):
        return [figure]
    ratios = [mesa["cpu_s"] / one["cpu_s"] for mesa, one in zip(mesas, ours, strict=True)]
    walls = {"wall_ratio": take_median([mesa["wall_s"] / one["wall_s"] for mesa, one in zip(mesas, ours, strict=True)])}
    goal = Goal(at_least=TIMES_MESA)
    return [figure, Result(f"mesa_ratio_{name}", take_median(ratios), "1", None, goal, {}, ratios, walls)]
