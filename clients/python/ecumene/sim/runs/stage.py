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
from ecumene.client.settings import ClientSettings
from ecumene.client.world import World, connect
from ecumene.launch import ServiceProcess, Services
from ecumene.sim.asking.asker import Asker
from ecumene.sim.asking.interventions import Intervener
from ecumene.sim.asking.lives import RunLife
from ecumene.sim.asking.plans import AFTER, BEFORE, Moment, plan_askings
from ecumene.sim.populations.population import Population
from ecumene.sim.rounds.clock_rounds import ClockRounds
from ecumene.sim.rounds.conductor import ROUND_KEY, Conductor
from ecumene.sim.rounds.group_players import keep_members
from ecumene.sim.rounds.guest_records import GuestRecorder
from ecumene.sim.rounds.guests import PLAYERS, Guests
from ecumene.sim.rounds.own_rounds import OwnRounds
from ecumene.sim.rounds.plans import GamePlan, RoundsPlan
from ecumene.sim.runs.attaching import tell_address
from ecumene.sim.runs.budgets import BudgetWatch, Quotas, keep_quotas
from ecumene.sim.runs.defects import tell_defects
from ecumene.sim.runs.events import EventRecorder
from ecumene.sim.runs.hosts import RUNTIME_STOP_TIMEOUT_S, NodeAgents, OwnNode, OwnRuntime
from ecumene.sim.runs.launch import choose_workers
from ecumene.sim.runs.launched_models import list_launched
from ecumene.sim.runs.options import RunObserver, RunOptions
from ecumene.sim.runs.record import RunRecord
from ecumene.sim.specs.game import GAME_PATH
from ecumene.sim.specs.spec import RunSpec
from ecumene.sim.worlds.layout import make_world, start_clocks

WORLD_CHARS_MAX = 40
NODES_WORLD = "main"
RUNTIME_START_TIMEOUT_S = 120.0
LAST_EVENTS_TIMEOUT_S = 30.0
LOG_AGE_S = 10 * 365 * 86_400
"""A run may lie for long before it is gone on with: its own world forgets nothing because of its age."""

Answer = TypeVar("Answer")


class Stage:
    """One life of a run: from its server's start to its last event on disk."""

    def __init__(
        self,
        spec: RunSpec,
        plan: RoundsPlan,
        record: RunRecord,
        services: Services,
        observer: RunObserver,
        options: RunOptions,
        *,
        population: Population,
        lock: int,
        quotas: Quotas,
        is_resumed: bool,
    ) -> None:
        """`lock`: a descriptor that services hold while they live."""
        self._spec = spec
        self._plan = plan
        self._record = record
        self._services = services
        self._observer = observer
        self._options = options
        self._population = population
        self._lock = lock
        self._quotas = quotas
        self._is_resumed = is_resumed
        self._logs = record.directory / "logs"

    async def play(self, launch_path: Path) -> None:
        """Everything, up to the last round. Raises BudgetSpentError when a budget has ended it before."""
        record, plan = self._record, self._plan
        async with AsyncExitStack() as stack:
            server = record.manifest.server or await self._start_server(stack)
            world: World = await stack.enter_async_context(self._open_world(server))
            record.begin(world.name, world.history, world.revision)
            stack.enter_context(tell_address(record.directory, server, world.name))
            await keep_quotas(world, self._quotas)
            # Whoever shares a world with others records what is the run's own.
            is_shared = self._world_name is not None or record.manifest.over_nodes
            wanted = EventFilter(path_prefix=plan.path) if is_shared else None
            first = record.manifest.first_revision
            recorder = EventRecorder(world, record.directory, run=record.run, event_filter=wanted, from_revision=first)
            await stack.enter_async_context(recorder)
            await make_world(world, self._spec, self._population, record.directory)
            guests = self._invite(world)
            life = self._describe_life(world)
            intervener = Intervener(life, self._spec.interventions)
            asker = Asker(life, plan_askings(self._spec.surveys, self._spec.interviews))
            plan = await intervener.settle(plan, is_resumed=self._is_resumed)
            conductor = self._choose_conductor(world, plan, guests)
            await stack.enter_async_context(conductor)
            if isinstance(plan, GamePlan):
                await keep_members(world, GAME_PATH, plan.groups, self._population, is_resumed=self._is_resumed)
            if not self._is_resumed and self._spec.experiment is None:
                await self._tell_history(world)
            agents = self._choose_agents(world, server, launch_path)
            await agents.clear()
            budgets = await stack.enter_async_context(BudgetWatch(world, record.run, list_launched(self._spec)))
            self._observer.stage_began("launching the agents")
            await agents.start()
            await start_clocks(world, self._spec)
            if guests is not None and not guests.are_enough and not record.rounds:
                self._observer.stage_began(describe_wait(self._spec.game.guests or 0, world.name, server))
                await self._beside_services(conductor.wait_for_guests())
            self._observer.run_began(record.run, record.directory, plan, len(record.rounds))
            try:
                playing = self._play_rounds(conductor, asker, intervener)
                told = await self._beside_services(_until_spent(budgets, playing))
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

    def _choose_conductor(self, world: World, plan: RoundsPlan, guests: Guests | None) -> Conductor | ClockRounds:
        experiment, observer = self._spec.experiment, self._observer
        if experiment is None:
            return Conductor(world, plan, producer=self._record.run, observer=observer, guests=guests)
        if experiment.clock is None:
            figures = experiment.figures
            return OwnRounds(world, plan, producer=self._record.run, observer=observer, figures=figures)
        start_ns = self._spec.clock_start_ns
        return ClockRounds(world, plan, experiment, start_ns=start_ns, observer=observer, tell=observer.stage_began)

    async def _play_rounds(self, conductor: Conductor | ClockRounds, asker: Asker, intervener: Intervener) -> None:
        recorder = GuestRecorder(self._record.directory, run=self._record.run)
        done = len(self._record.rounds)
        if not done:
            await asker.ask(BEFORE)
        for number in range(1, self._plan.rounds + 1):
            if number > done:
                if reason := self._record.find_stop():
                    self._observer.stage_began(f"ended by {reason}")
                    break
                await intervener.before_round(number)
                result = await conductor.play_round(number)
                if result.guests:
                    await asyncio.to_thread(recorder.record, result)
                self._record.note_round(result)
            if number >= done:
                # A run that is gone on with may have been killed while its agents were asked.
                await asker.ask(Moment("after_round", number))
                await intervener.after_round(number, self._record.rounds[number - 1])
        await asker.ask(AFTER)

    def _describe_life(self, world: World) -> RunLife:
        return RunLife(
            world=world,
            run=self._record.run,
            seed=self._spec.seed,
            directory=self._record.directory,
            population=self._population,
            tell=self._observer.stage_began,
        )

    def _invite(self, world: World) -> Guests | None:
        awaited = self._spec.game.guests if self._spec.experiment is None else None
        return (
            None
            if awaited is None
            else Guests(world, self._population.name_agents(), awaited=awaited, holder=self._record.run)
        )

    async def _start_server(self, stack: AsyncExitStack) -> str:
        self._observer.stage_began("starting the server")
        data = str(self._record.directory / "world")
        arguments = ["--data-dir", data, "--port", "0", "--log-age-s", str(LOG_AGE_S), *self._options.server_arguments]
        behaviours = self._spec.world.behaviours if self._spec.world is not None else ()
        for behaviour in behaviours:
            arguments += ["--behaviour", behaviour]
        log_path = self._logs / "server.log"
        server = await self._services.start("env-server", arguments, log_path=log_path, keep_open=(self._lock,))
        stack.enter_context(tell_defects(log_path, behaviours))
        return str(server.ready["address"])

    def _open_world(self, server: str) -> Any:
        settings = ClientSettings(reconnect_timeout_s=120.0)
        is_over_nodes = self._record.manifest.over_nodes
        own = NODES_WORLD if is_over_nodes else self._record.run[-WORLD_CHARS_MAX:].lstrip("-")
        return connect(server, self._world_name or own, create=not is_over_nodes, timeout_s=30.0, settings=settings)

    @property
    def _world_name(self) -> str | None:
        """Of a world that others share, too."""
        return self._spec.world.name if self._spec.world is not None else None

    def _choose_agents(self, world: World, server: str, launch_path: Path) -> OwnRuntime | NodeAgents:
        run, spec = self._record.run, self._spec
        if self._record.manifest.over_nodes:
            return NodeAgents(world, run, launch_path, self._is_resumed)
        if spec.asks:
            workers = self._options.workers or choose_workers(len(self._population))
            models = spec.list_models().values()
            return OwnNode(self, world, server, launch_path, workers=workers, models=models)
        return OwnRuntime(self, world, server, launch_path)

    async def start_runtime(self, arguments: Sequence[str]) -> ServiceProcess:
        """Start a runtime that ends with the run."""
        return await self._beside_services(
            self._services.start(
                "runtime",
                arguments,
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
