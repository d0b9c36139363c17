"""Runs models of many agents: a server, runtimes that host the agents, one run a seed; then a table of what came out.

A model is an object with the attributes of `Model`; the other files of this folder are some. Each run of it has an
environment of its own, `/<model>/<seed>`, in one world: all seeds share the processes, and are played side by side.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

import ecumene
import pyarrow as pa
from ecumene.launch import ServiceProcess, Services
from ecumene.sim.steps import STEP_KEY, Steps
from intervals import compute_half_width

HERE = Path(__file__).resolve().parent
START_TIMEOUT_S = 120.0
RUNS_AT_ONCE = 4
"""So that the agents of one run decide while another's reports are read."""


@dataclass(frozen=True, slots=True)
class Known:
    """What a figure should be, `deviation` from run to run (0: exactly so in each), and where that is from."""

    value: float
    deviation: float
    source: str
    range: float = 0.0
    """Of what the figure can be, where it is far from normally distributed; 0 = it is near enough."""


class Model(Protocol):
    """What is played: who the agents are, and what becomes of what they say."""

    name: str
    agent: str
    """Class of the agents, `module:Class`, in this folder."""
    agents: Sequence[str]
    parameters: Mapping[str, Any]
    """What all agents know, and what `agent` needs."""
    meanings: Mapping[str, str]
    """What its figures are, in words, by name."""
    resumable: bool
    """Whether agents remember something; then they play one run after the other, and it is kept in the world."""

    async def play(self, steps: Steps) -> dict[str, float]:
        """One run, all of whose chance follows from `steps.seed`; returns its figures."""
        ...

    def list_known(self) -> dict[str, Known]:
        """What the figures should be, by name; figures without one are only told."""
        ...


@dataclass(frozen=True, slots=True)
class Played:
    """One run. Equal digests: everything that was told and said was equal."""

    seed: int
    figures: Mapping[str, float]
    digest: str
    steps: int


class Stage:
    """A server and runtimes, started once for all models and seeds. An async context manager."""

    def __init__(self, models: Sequence[Model], *, runtimes: int = 1, workers: int = 1) -> None:
        """The agents of each model are shared out among `runtimes` nodes of `workers` processes each."""
        self._models = models
        self._shares = runtimes
        self._workers = workers
        self.services = Services()
        self.folder = Path()
        """Where the world and the launch descriptions are, as long as the stage is open."""
        self.server: ServiceProcess | None = None
        self.runtimes: list[ServiceProcess] = []
        self._stack = AsyncExitStack()
        self._world: ecumene.World | None = None
        self.steps_per_s = 0.0
        """Of the last `play`, all runs together."""

    async def __aenter__(self) -> Self:
        try:
            self.folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="models-")))
            await self._stack.enter_async_context(self.services)
            address = await self.start_server()
            self._world = await self._stack.enter_async_context(ecumene.connect(address))
            for model in self._models:
                await self._world.environment(f"/{model.name}").register()
            for number in range(self._shares):
                self.runtimes.append(await self.start_runtime(number))
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.__aexit__(kind, error, trace)

    async def start_server(self, port: int = 0) -> str:
        """Start it on the stage's world; returns its address. `port` 0 = any that is free."""
        arguments = ["--data-dir", str(self.folder / "world"), "--port", str(port), "--log-level", "warning"]
        self.server = await self.services.start("env-server", arguments)
        return str(self.server.ready["address"])

    async def start_runtime(self, number: int, *, resume: bool = False) -> ServiceProcess:
        """Start the runtime that hosts share `number` of all agents; `resume`: it goes on where one has ended."""
        assert self.server is not None, "start the server first"
        spec = self._describe_launch(number, resume=resume)
        arguments = ["--server", str(self.server.ready["address"]), "--spec", str(spec)]
        # The classes of agents are found in this folder.
        found = {"PYTHONPATH": os.pathsep.join(filter(None, (str(HERE), os.environ.get("PYTHONPATH", ""))))}
        return await self.services.start("runtime", arguments, environment=found, start_timeout_s=START_TIMEOUT_S)

    async def play(self, model: Model, seeds: Iterable[int], *, at_once: int = RUNS_AT_ONCE) -> list[Played]:
        """A run for each seed; in the order of the seeds, which must be new to the stage.

        Raises what the model raises, and what `Steps` raises.
        """
        turnstile = asyncio.Semaphore(1 if model.resumable else at_once)

        async def play_one(seed: int) -> Played:
            async with turnstile, self.conduct(model, seed) as steps:
                figures = await model.play(steps)
                return Played(seed, figures, steps.digest, steps.number)

        began = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            runs = [group.create_task(play_one(seed), name=f"{model.name} {seed}") for seed in seeds]
        played = [run.result() for run in runs]
        self.steps_per_s = sum(run.steps for run in played) / (time.perf_counter() - began)
        return played

    def conduct(self, model: Model, seed: int) -> Steps:
        """The steps of one run, to be entered; for who plays it otherwise than `play` does."""
        assert self._world is not None, "enter the context first"
        return Steps(self._world, f"/{model.name}/{seed}", model.agents, seed=seed)

    def _describe_launch(self, number: int, *, resume: bool) -> Path:
        """The share of a runtime: some rows of each group."""
        groups = []
        for model in self._models:
            count = len(model.agents)
            rows = (count * number // self._shares, count * (number + 1) // self._shares)
            file = self.folder / f"{model.name}.arrow"
            _write_agents(model.agents, file)
            wake = [{"path": f"/{model.name}/*", "key": STEP_KEY, "types": ["entry_set"]}]
            group = {"name": model.name, "agent": model.agent, "agents": file.name, "rows": rows, "wake": wake}
            groups.append({**group, "parameters": dict(model.parameters), "resumable": model.resumable})
        launch = {"run": f"models-{number}", "node": f"node{number}", "workers": self._workers, "groups": groups}
        path = self.folder / f"launch-{number}.json"
        path.write_text(json.dumps({**launch, "resume": resume}), encoding="utf-8")
        return path


def name_agents(model: str, count: int) -> list[str]:
    """Ids in which each agent finds its own place: `find_place`. An id is there once in all models of a launch."""
    return [f"{model}-{place}" for place in range(count)]


def find_place(agent_id: str) -> int:
    """The agent's place among all of its model."""
    return int(agent_id.rpartition("-")[2])


def read_kept(model: str) -> dict[str, Known]:
    """The figures of another implementation that were kept in mesa.json, if there are any of the model."""
    kept = json.loads((HERE / "mesa.json").read_text(encoding="utf-8"))
    figures = kept["figures"].get(model, {})
    return {
        name: Known(mean, deviation, f"{kept['source']}, {runs} runs")
        for name, (mean, deviation, runs) in figures.items()
    }


def summarise(model: Model, played: Sequence[Played]) -> list[str]:
    """Lines of a table: each figure's mean with its 95 % interval, and what is known of it; one run has no interval."""
    lines = [f"{'figure':<28} {'mean':>10} {'± 95 %':>9} {'known':>10}  source"]
    known = model.list_known()
    for name in played[0].figures:
        values = [run.figures[name] for run in played]
        half = compute_half_width(values)
        told = f"{known[name].value:>10.4f}  {known[name].source}" if name in known else ""
        interval = "-" if half is None else f"{half:.4f}"
        lines.append(f"{name:<28} {statistics.fmean(values):>10.4f} {interval:>9} {told}")
    return lines


def join_digests(played: Iterable[Played]) -> str:
    """One digest of several runs, in their order."""
    return blake2b("".join(run.digest for run in played).encode(), digest_size=16).hexdigest()


def _write_agents(agents: Sequence[str], file: Path) -> None:
    table = pa.table({"agent_id": list(agents)})
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
