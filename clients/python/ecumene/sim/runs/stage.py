"""What a run needs around its rounds, set up and taken down in order.

server (unless one is given) ─► world ─► quotas ─► agents: a runtime, or nodes ─► rounds ─► agents stop
                                  └──────── events are recorded, budgets watched, all along ────────┘
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, TypeVar

from ecumene.client.errors import EcumeneError
from ecumene.client.model import EventFilter
from ecumene.client.reasons import EnvironmentNotFoundError
from ecumene.client.runtime_errors import RunNotFoundError
from ecumene.client.settings import ClientSettings
from ecumene.client.world import World, connect
from ecumene.launch import ServiceProcess, Services
from ecumene.launch.launch_files import read_launch
from ecumene.launch.node_runs import launch_run, stop_run
from ecumene.sim.rounds.conductor import GAME_PATH, ROUND_KEY, Conductor, GamePlan
from ecumene.sim.rounds.guest_records import GuestRecorder
from ecumene.sim.rounds.guests import PLAYERS, Guests
from ecumene.sim.runs.budgets import BudgetWatch, Quotas, keep_quotas
from ecumene.sim.runs.events import EventRecorder
from ecumene.sim.runs.launch import mark_resumed
from ecumene.sim.runs.launched_models import list_launched
from ecumene.sim.runs.options import RunObserver, RunOptions
from ecumene.sim.runs.record import RunRecord
from ecumene.sim.specs.spec import RunSpec

WORLD_CHARS_MAX = 40
NODES_WORLD = "main"
RUNTIME_START_TIMEOUT_S = 120.0
RUNTIME_STOP_TIMEOUT_S = 30.0
LAST_EVENTS_TIMEOUT_S = 30.0
LOG_AGE_S = 10 * 365 * 86_400
"""A run may lie for long before it is gone on with: its own world forgets nothing because of its age."""

Answer = TypeVar("Answer")


class Stage:
    """One life of a run: from its server's start to its last event on disk."""

    def __init__(
        self,
        spec: RunSpec,
        plan: GamePlan,
        record: RunRecord,
        services: Services,
        observer: RunObserver,
        options: RunOptions,
        *,
        agents: Sequence[str],
        lock: int,
        quotas: Quotas,
        is_resumed: bool,
    ) -> None:
        """`agents`: all of the run, if guests may join. `lock`: a descriptor that services hold while they live."""
        self._spec = spec
        self._plan = plan
        self._record = record
        self._services = services
        self._observer = observer
        self._options = options
        self._agents = agents
        self._lock = lock
        self._quotas = quotas
        self._is_resumed = is_resumed
        self._logs = record.directory / "logs"

    async def play(self, launch_path: Path) -> None:
        """Everything, up to the last round. Raises BudgetSpentError when a budget has ended it before."""
        record, plan = self._record, self._plan
        async with AsyncExitStack() as stack:
            server = record.manifest.server or await self._start_server()
            world: World = await stack.enter_async_context(self._open_world(server))
            record.begin(world.name, world.history, world.revision)
            await keep_quotas(world, self._quotas)
            # Whoever shares a world with others records what is the run's own.
            is_shared = self._spec.world is not None or record.manifest.over_nodes
            wanted = EventFilter(path_prefix=GAME_PATH) if is_shared else None
            first = record.manifest.first_revision
            recorder = EventRecorder(world, record.directory, run=record.run, event_filter=wanted, from_revision=first)
            await stack.enter_async_context(recorder)
            guests = self._invite(world)
            conductor = Conductor(world, plan, producer=record.run, observer=self._observer, guests=guests)
            await stack.enter_async_context(conductor)
            if not self._is_resumed:
                await self._tell_history(world)
            agents = self._choose_agents(world, server, launch_path)
            await agents.clear()
            budgets = await stack.enter_async_context(BudgetWatch(world, record.run, list_launched(self._spec)))
            self._observer.stage_began("launching the agents")
            await agents.start()
            if guests is not None and not guests.are_enough and not record.rounds:
                self._observer.stage_began(describe_wait(self._spec.game.guests or 0, world.name, server))
                await self._beside_services(conductor.wait_for_guests())
            self._observer.run_began(record.run, record.directory, plan, len(record.rounds))
            try:
                told = await self._beside_services(_until_spent(budgets, self._play_rounds(conductor)))
            except (asyncio.CancelledError, EcumeneError):
                with contextlib.suppress(EcumeneError, TimeoutError):
                    async with asyncio.timeout(RUNTIME_STOP_TIMEOUT_S):
                        await agents.stop()
                raise
            self._observer.stage_began("stopping")
            await agents.stop()
            if told is not None:
                raise await budgets.describe(told)
            async with asyncio.timeout(LAST_EVENTS_TIMEOUT_S):
                await recorder.wait_for(record.rounds[-1].revision)

    async def _tell_history(self, world: World) -> None:
        """Nobody takes a game that goes on for one that begins."""
        state = await world.environment(GAME_PATH).value(ROUND_KEY)
        played = state.get("round") if isinstance(state, dict) else None
        if isinstance(played, int) and played > 0:
            self._observer.stage_began(describe_history(world.name, played))

    async def _play_rounds(self, conductor: Conductor) -> None:
        recorder = GuestRecorder(self._record.directory, run=self._record.run)
        for number in range(len(self._record.rounds) + 1, self._plan.rounds + 1):
            if reason := self._record.find_stop():
                self._observer.stage_began(f"ended by {reason}")
                return
            result = await conductor.play_round(number)
            if result.guests:
                await asyncio.to_thread(recorder.record, result)
            self._record.note_round(result)

    def _invite(self, world: World) -> Guests | None:
        awaited = self._spec.game.guests
        return None if awaited is None else Guests(world, self._agents, awaited=awaited, holder=self._record.run)

    async def _start_server(self) -> str:
        self._observer.stage_began("starting the server")
        data = str(self._record.directory / "world")
        arguments = ["--data-dir", data, "--port", "0", "--log-age-s", str(LOG_AGE_S), *self._options.server_arguments]
        server = await self._services.start(
            "env-server", arguments, log_path=self._logs / "server.log", keep_open=(self._lock,)
        )
        return str(server.ready["address"])

    def _open_world(self, server: str) -> Any:
        settings = ClientSettings(reconnect_timeout_s=120.0)
        is_over_nodes = self._record.manifest.over_nodes
        own = NODES_WORLD if is_over_nodes else self._record.run[-WORLD_CHARS_MAX:].lstrip("-")
        return connect(server, self._spec.world or own, create=not is_over_nodes, timeout_s=30.0, settings=settings)

    def _choose_agents(self, world: World, server: str, launch_path: Path) -> _OwnRuntime | _NodeAgents:
        run = self._record.run
        if self._record.manifest.over_nodes:
            return _NodeAgents(world, run, launch_path, self._is_resumed)
        return _OwnRuntime(self, world, server, launch_path)

    async def start_runtime(self, server: str, world: str, launch_path: Path) -> ServiceProcess:
        """Start a runtime that hosts the agents, and ends with the run."""
        return await self._beside_services(
            self._services.start(
                "runtime",
                ["--server", server, "--world", world, "--spec", str(launch_path)],
                log_path=self._logs / "runtime.log",
                start_timeout_s=RUNTIME_START_TIMEOUT_S,
                keep_open=(self._lock,),
            )
        )

    @property
    def is_resumed(self) -> bool:
        """Whether it is not the first life of the run."""
        return self._is_resumed

    @property
    def run(self) -> str:
        """Name of the run."""
        return self._record.run

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


def describe_history(world: str, played: int) -> str:
    """What a run finds in a world that has its game already."""
    rounds = "1 round" if played == 1 else f"{played:,} rounds"
    told = f"world {world} has played {rounds} of this game, and the agents are told its last winner"
    return f"{told}; to begin anew delete it (ecumene env rm -r {GAME_PATH} --world {world}) or take another world"


def describe_wait(guests: int, world: str, server: str) -> str:
    """For whom the first round waits, and where they are to come."""
    count = "1 guest" if guests == 1 else f"{guests:,} guests"
    return f"waiting for {count} to join {GAME_PATH}/{PLAYERS} of world {world} at {server}"


class _OwnRuntime:
    """The agents live in a runtime that is started for the run."""

    def __init__(self, stage: Stage, world: World, server: str, launch_path: Path) -> None:
        self._stage = stage
        self._world = world
        self._server = server
        self._launch_path = launch_path
        self._process: ServiceProcess | None = None

    async def clear(self) -> None:
        """Take its parts from workers that are gone, instead of waiting for the end of their leases."""
        if not self._stage.is_resumed:
            return
        place = self._world.environment(f"/runtime/runs/{self._stage.run}")
        try:
            await place.describe()
        except EnvironmentNotFoundError:
            return  # it was killed before it was launched
        await asyncio.to_thread(mark_resumed, self._launch_path)
        parts = place.child("parts")
        try:
            held = [entry.key async for entry in parts.entries()]
        except EnvironmentNotFoundError:
            return
        await asyncio.gather(*(parts.delete(key, if_present=True) for key in held))

    async def start(self) -> None:
        """Launch."""
        self._process = await self._stage.start_runtime(self._server, self._world.name, self._launch_path)

    async def stop(self) -> None:
        """Let it end in order."""
        if self._process is not None:
            await self._process.stop(RUNTIME_STOP_TIMEOUT_S)


class _NodeAgents:
    """The agents live on the nodes of the world, and are stopped there when the run ends."""

    def __init__(self, world: World, run: str, launch_path: Path, is_resumed: bool) -> None:
        self._world = world
        self._run = run
        self._launch_path = launch_path
        self._is_resumed = is_resumed

    async def clear(self) -> None:
        """Stop what lives of the run: nodes go on when its conductor is gone, and may hold what was not paid for."""
        if self._is_resumed:
            await self._stop()

    async def start(self) -> None:
        """Launch where there is room; a launch that an earlier conductor began is brought to its end."""
        document, agents = await asyncio.to_thread(read_launch, self._launch_path)
        await launch_run(self._world, document, agents)

    async def stop(self) -> None:
        """Let them end in order."""
        await self._stop()

    async def _stop(self) -> None:
        try:
            await stop_run(self._world, self._run)
        except RunNotFoundError:
            pass


async def _until_spent(budgets: BudgetWatch, rounds: Coroutine[Any, Any, None]) -> Any:
    """Do all rounds, or as many as a budget pays for; what is told of the budget then, None otherwise."""
    spending = asyncio.create_task(budgets.wait_spent(), name="watch the budgets")
    playing = asyncio.create_task(rounds, name="play the rounds")
    try:
        await asyncio.wait({spending, playing}, return_when=asyncio.FIRST_COMPLETED)
        if playing.done():
            playing.result()
            return None
        return spending.result()
    finally:
        for task in (spending, playing):
            task.cancel()
        await asyncio.gather(spending, playing, return_exceptions=True)
