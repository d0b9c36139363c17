"""Writers at work: a server and a runtime of their own, whose agents write one text each, through any model.

    job ──► /backgrounds/people ─ wakes the agent of that id ─► its model ──► /backgrounds/written ──► here

The world is thrown away afterwards: what is finished is kept elsewhere (`kept`).
"""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import pyarrow as pa

from ecumene.client.environment import Environment
from ecumene.client.event_batch import Event
from ecumene.client.model import EventType
from ecumene.client.watches import Watch
from ecumene.client.world import connect
from ecumene.launch import Services
from ecumene.sim.backgrounds.plans import Job, Planner
from ecumene.sim.runs.budgets import Quotas
from ecumene.sim.runs.launched_models import describe_model
from ecumene.sim.specs.spec import RunSpec

PLACE, PEOPLE, WRITTEN = "/backgrounds", "people", "written"
START_TIMEOUT_S = 120.0
TURN_TIMEOUT_S = 86_400
LAUNCH_NAME = "launch.json"

Answer = TypeVar("Answer")


class Writers:
    """Async context manager: agents that write, until it is left."""

    def __init__(self, spec: RunSpec, planner: Planner, jobs: Sequence[Job], folder: Path) -> None:
        """`jobs`: all that may be given; `folder`: is made, and gone afterwards unless anything fails."""
        self._spec = spec
        self._planner = planner
        self._jobs = jobs
        self._folder = folder
        self._services = Services()
        self._stack = AsyncExitStack()
        self._watch: Watch | None = None
        self._people: Environment | None = None
        self._ending: asyncio.Task[None] | None = None
        """Ends, with the reason, when a service does."""

    async def __aenter__(self) -> Self:
        """Raises LaunchError: a service did not start; EcumeneError, OSError."""
        shutil.rmtree(self._folder, ignore_errors=True)  # of a command that was killed
        self._folder.mkdir(parents=True)
        launch = self._write_launch()
        async with AsyncExitStack() as stack:
            services = await stack.enter_async_context(self._services)
            logs = self._folder / "logs"
            arguments = ["--data-dir", str(self._folder / "world"), "--port", "0"]
            server = await services.start("env-server", arguments, log_path=logs / "server.log")
            address = str(server.ready["address"])
            world = await stack.enter_async_context(connect(address))
            place = world.environment(PLACE)
            for environment in (place, place.child(PEOPLE), place.child(WRITTEN)):
                await environment.register(if_absent=True)
            self._people = place.child(PEOPLE)
            self._watch = place.child(WRITTEN).watch(types=[EventType.ENTRY_SET])
            stack.push_async_callback(self._watch.aclose)
            arguments = ["--server", address, "--world", world.name, "--spec", str(launch)]
            await services.start("runtime", arguments, log_path=logs / "runtime.log", start_timeout_s=START_TIMEOUT_S)
            self._ending = asyncio.create_task(services.watch(), name="watch the services")
            stack.push_async_callback(_end, self._ending)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.__aexit__(kind, error, trace)
        if error is None or isinstance(error, asyncio.CancelledError):
            shutil.rmtree(self._folder, ignore_errors=True)

    async def write(self, jobs: Sequence[Job]) -> AsyncIterator[tuple[Job, dict[str, Any]]]:
        """Have jobs done, some at a time, and give what came of each, as the writers tell it.

        Raises ServiceEndedError, EcumeneError.
        """
        assert self._people is not None
        waiting = iter(jobs)
        open_jobs: dict[str, Job] = {}

        async def give_more() -> None:
            assert self._people is not None
            while len(open_jobs) < 2 * self._planner.model.in_flight_max and (job := next(waiting, None)) is not None:
                open_jobs[job.name] = job
                await self._beside_services(self._people.set(job.name, job.to_document()))

        await give_more()
        while open_jobs:
            name, told = await self._hear()
            if (job := open_jobs.pop(name, None)) is not None:
                await give_more()
                yield job, told

    async def _hear(self) -> tuple[str, dict[str, Any]]:
        """The next thing that was written."""
        event = await self._beside_services(self._take_event())
        assert isinstance(event.value, dict)
        return event.key, dict(event.value)

    async def _take_event(self) -> Event:
        assert self._watch is not None
        return await anext(self._watch)

    async def _beside_services(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        """Do something as long as all services live. Raises ServiceEndedError."""
        assert self._ending is not None
        working = asyncio.create_task(work, name="writers")
        try:
            await asyncio.wait({working, self._ending}, return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                await self._ending  # raises what ended
            return await working
        finally:
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)

    def _write_launch(self) -> Path:
        backgrounds, planner = self._planner.backgrounds, self._planner
        columns: dict[str, Any] = {"agent_id": pa.array([job.name for job in self._jobs], pa.string())}
        if backgrounds.temperature is not None:
            columns["temperature"] = pa.array([job.temperature for job in self._jobs], pa.float64())
        if planner.sends_seeds:
            columns["seed"] = pa.array([job.seed for job in self._jobs], pa.int64())
        table = pa.table(columns)
        with pa.OSFile(str(self._folder / "writers.arrow"), "wb") as file, pa.ipc.new_file(file, table.schema) as out:
            out.write_table(table)
        model = describe_model(self._spec, planner.model_name, planner.model, planner.model.temperature, Quotas())
        budget = self._spec.budget
        group = {
            "name": "writers",
            "agent": "background-writer",
            "agents": "writers.arrow",
            "wake": [{"path": f"{PLACE}/{PEOPLE}", "key": "{agent}", "types": ["entry_set"]}],
            "model": "writer",
            "resumable": False,
            "turn_timeout_s": TURN_TIMEOUT_S,
            "parameters": {
                "path": f"{PLACE}/{WRITTEN}",
                "prompt": backgrounds.prompt,
                "language": backgrounds.language,
                "words": planner.words,
                "repairs": backgrounds.repairs,
            },
        }
        document = {
            "run": "backgrounds",
            "seed": self._spec.seed,
            "workers": 1,
            "models": {"writer": model},
            "budget": {"tokens_max": budget.tokens_max, "microdollars_max": budget.microdollars_max},
            "groups": [group],
        }
        path = self._folder / LAUNCH_NAME
        path.write_text(json.dumps(document, ensure_ascii=False, default=list) + "\n", encoding="utf-8")
        return path


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
