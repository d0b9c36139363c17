"""Runs an experiment from its spec to its records: services, world, rounds, manifest.

    directory ─► server (unless one is given) ─► world ─► runtime ─► rounds ─► runtime stops ─► manifest, report
                                                   └── events are recorded all along ──┘

Whatever ends a run, what was recorded stays and the manifest says how it ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol, TypeVar

from ecumene.client.errors import EcumeneError
from ecumene.client.model import EventFilter
from ecumene.client.records import RunState
from ecumene.client.settings import ClientSettings
from ecumene.client.world import World, connect
from ecumene.launch import ServiceProcess, Services
from ecumene.sim.conductor import GAME_PATH, Conductor, GamePlan, RoundObserver
from ecumene.sim.guest_records import GuestRecorder
from ecumene.sim.guests import PLAYERS, Guests
from ecumene.sim.population import build_population
from ecumene.sim.run_events import EventRecorder
from ecumene.sim.run_launch import write_launch
from ecumene.sim.run_record import RunRecord, make_directory
from ecumene.sim.run_results import RunOutcome
from ecumene.sim.spec import RunSpec

WORLD_CHARS_MAX = 40
RUNTIME_START_TIMEOUT_S = 120.0
RUNTIME_STOP_TIMEOUT_S = 30.0
LAST_EVENTS_TIMEOUT_S = 30.0

Answer = TypeVar("Answer")


class RunObserver(RoundObserver, Protocol):
    """Is told how a run goes, in its loop; must not block."""

    def stage_began(self, stage: str) -> None:
        """What is being done now, in a few words."""

    def run_began(self, run: str, directory: Path, plan: GamePlan) -> None:
        """The agents are there, and the first round is next."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How to run, as opposed to what.

    Attributes:
        server: address of a server to use; None = one of the run's own, with its data in the run's directory.
        server_arguments: further arguments of the run's own server.
        workers: processes of the runtime; None = by the number of agents.
        now: the time of day.
    """

    server: str | None = None
    server_arguments: Sequence[str] = ()
    workers: int | None = None
    now: Callable[[], datetime] = lambda: datetime.now(UTC)


async def run(spec: RunSpec, *, observer: RunObserver, options: RunOptions | None = None) -> RunOutcome:
    """Run an experiment and return what it came to.

    Its directory is `spec.recording.directory`/RUN, where RUN is the spec's name and the time. If this is
    cancelled, services are stopped in order, what was recorded is kept, and the manifest says `interrupted`.

    Raises (when the manifest says `failed`):
        SpecError: the spec asks for something that is not there.
        LaunchError: a service did not start, or ended.
        EcumeneError: the world refused something, or could not be reached for too long.
        OSError: the disk.
    """
    options = options or RunOptions()
    started = options.now()
    name, directory = make_directory(spec, started)
    plan = GamePlan(
        rounds=spec.game.rounds,
        participants=len(population := build_population(spec.population, spec.seed)),
        ratio=float(spec.game.ratio),
        offset=float(spec.game.offset),
        deadline_ms=round(spec.game.deadline_s * 1000),
    )
    record = RunRecord(spec, name, directory, started, options.now)
    try:
        launch_path = write_launch(spec, population, run=name, directory=directory, workers=options.workers)
        async with Services() as services:
            names = population.name_agents()
            await _Stage(spec, plan, names, record, services, observer, options).play(launch_path)
        observer.stage_began("writing the report")
        return await asyncio.to_thread(record.end_well)
    except asyncio.CancelledError:
        record.end(RunState.INTERRUPTED, "interrupted")
        raise
    except (EcumeneError, OSError) as error:
        record.end(RunState.FAILED, " ".join(str(error).split()))
        raise


class _Stage:
    """What a run needs around its rounds, set up and taken down in order."""

    def __init__(
        self,
        spec: RunSpec,
        plan: GamePlan,
        agents: Sequence[str],
        record: RunRecord,
        services: Services,
        observer: RunObserver,
        options: RunOptions,
    ) -> None:
        self._spec = spec
        self._plan = plan
        self._agents = agents
        self._record = record
        self._services = services
        self._observer = observer
        self._options = options
        self._logs = record.directory / "logs"

    async def play(self, launch_path: Path) -> None:
        """Everything from the server's start to the last event on disk."""
        async with AsyncExitStack() as stack:
            server = self._options.server or await self._start_server()
            world = await stack.enter_async_context(self._open_world(server))
            self._record.begin(world.name, world.history)
            # Whoever shares a world with others records what is the run's own.
            wanted = EventFilter(path_prefix=GAME_PATH) if self._spec.world else None
            recorder = EventRecorder(world, self._record.directory, run=self._record.run, event_filter=wanted)
            await stack.enter_async_context(recorder)
            guests = self._invite(world)
            conductor = Conductor(world, self._plan, producer=self._record.run, observer=self._observer, guests=guests)
            await stack.enter_async_context(conductor)
            runtime = await self._start_runtime(server, world.name, launch_path)
            if guests is not None and not guests.are_enough:
                where = f"{GAME_PATH}/{PLAYERS} of world {world.name} at {server}"
                count = f"{self._spec.game.guests:,} guest{'' if self._spec.game.guests == 1 else 's'}"
                self._observer.stage_began(f"waiting for {count} to join {where}")
                await self._beside_services(conductor.wait_for_guests())
            self._observer.run_began(self._record.run, self._record.directory, self._plan)
            await self._beside_services(self._play_rounds(conductor))
            self._observer.stage_began("stopping")
            await runtime.stop(RUNTIME_STOP_TIMEOUT_S)
            async with asyncio.timeout(LAST_EVENTS_TIMEOUT_S):
                await recorder.wait_for(self._record.rounds[-1].revision)

    async def _play_rounds(self, conductor: Conductor) -> None:
        recorder = GuestRecorder(self._record.directory, run=self._record.run)
        for number in range(1, self._plan.rounds + 1):
            result = await conductor.play_round(number)
            self._record.rounds.append(result)
            if result.guests:
                await asyncio.to_thread(recorder.record, result)

    def _invite(self, world: World) -> Guests | None:
        awaited = self._spec.game.guests
        return None if awaited is None else Guests(world, self._agents, awaited=awaited, holder=self._record.run)

    async def _start_server(self) -> str:
        self._observer.stage_began("starting the server")
        data = str(self._record.directory / "world")
        arguments = ["--data-dir", data, "--port", "0", *self._options.server_arguments]
        server = await self._services.start("env-server", arguments, log_path=self._logs / "server.log")
        return str(server.ready["address"])

    async def _start_runtime(self, server: str, world: str, launch_path: Path) -> ServiceProcess:
        self._observer.stage_began("launching the agents")
        arguments = ["--server", server, "--world", world, "--spec", str(launch_path)]
        start = self._services.start(
            "runtime",
            arguments,
            log_path=self._logs / "runtime.log",
            start_timeout_s=RUNTIME_START_TIMEOUT_S,
        )
        return await self._beside_services(start)

    def _open_world(self, server: str) -> Any:
        settings = ClientSettings(reconnect_timeout_s=120.0)
        name = self._spec.world or self._record.run[-WORLD_CHARS_MAX:].lstrip("-")
        return connect(server, name, create=True, timeout_s=30.0, settings=settings)

    async def _beside_services(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        """Do something as long as all services live.

        Raises ServiceEndedError if one ends.
        """
        watching = asyncio.create_task(self._services.watch(), name="watch the services")
        working = asyncio.create_task(work, name="rounds")
        try:
            await asyncio.wait({watching, working}, return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                await watching
            return await working
        finally:
            for task in (watching, working):
                task.cancel()
            await asyncio.gather(watching, working, return_exceptions=True)
