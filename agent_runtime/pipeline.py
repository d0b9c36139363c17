"""Life of a turn: builds the stages of one worker, in the order in which an event passes them.

    ecumene.client ─► listeners ─► mailboxes ─► turns ─► agents ─► llm ─► actions ─► ecumene.client
        watch          rules,       one turn     one status         one    one op a turn,
                       notices      an agent     each               gateway packed into frames
                                                                     └────────► recording

Each group has its own watch and its own turns; all share the session, the outbox, the ledger and the models.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Protocol

from ecumene.client import FrameWatch, World

from agent_runtime.actions.outbox import Outbox
from agent_runtime.actions.validation import KnownPlaces
from agent_runtime.agents.agent import Agent, GroupInfo, RuleAgents
from agent_runtime.agents.cohort import Cohort, open_agents
from agent_runtime.agents.registry import find_agent_class
from agent_runtime.listeners.feed import GroupFeed
from agent_runtime.listeners.rules import WakeRules
from agent_runtime.llm.spending import Tally
from agent_runtime.model.clock import Clock
from agent_runtime.model.errors import LaunchError
from agent_runtime.model.notices import Notice
from agent_runtime.model.owned_tasks import OwnedTasks
from agent_runtime.recording import Recorder
from agent_runtime.settings import GroupSpec, WorkerConfig
from agent_runtime.turns.columns import ColumnTurns
from agent_runtime.turns.desk import Desk
from agent_runtime.turns.gateways import Model, ModelChoice, open_budget, open_model
from agent_runtime.turns.ledger import Ledger
from agent_runtime.turns.singles import SingleTurns
from agent_runtime.turns.statistics import TurnsStatistics

LEDGER_FLUSH_S = 0.5


class Turns(Protocol):
    """The turns of one group: of objects (SingleTurns) or in columns (ColumnTurns)."""

    async def deliver(self, notice: Notice, whom: str) -> None:
        """Take a notice for everyone or for one agent."""

    async def run(self) -> None:
        """Take turns until cancelled."""

    async def stop(self) -> None:
        """End as cancelled what has not been decided; what commits goes on."""

    def statistics(self) -> TurnsStatistics:
        """How full the group is."""
        ...


class Pipeline:
    """All stages of one worker, on one loop and one open world."""

    def __init__(self, config: WorkerConfig, world: World, recorder: Recorder | None, clock: Clock) -> None:
        self._config = config
        self._settings = config.launch.worker
        self._world = world
        self._clock = clock
        self.tasks = OwnedTasks()
        """Whatever fails here for good ends the worker; what happens within a turn does not come here."""
        self._heads = OwnedTasks()
        self.ledger = Ledger(recorder, clock)
        self.outbox = Outbox(world, self.tasks, self._settings)
        self.spent = Tally()
        """What models have cost, by model and phase."""
        self._places = KnownPlaces(world)
        self._models: dict[str, Model] = {}
        self._groups: dict[str, Turns] = {}
        self._watches: list[FrameWatch] = []
        self.agents = 0

    async def start(self) -> None:
        """Build all groups and begin to watch: whatever happens in the world from now on wakes its agents.

        Raises LaunchError, ModelSetupError, EcumeneError; then `stop` still has to be called.
        """
        groups = [(spec, self._config.shares.get(spec.name, (0, 0))) for spec in self._config.launch.groups]
        settled = [(spec, share) for spec, share in groups if share[1] > share[0]]
        await self._open_models({spec.name: share for spec, share in settled})
        from_revision = self._config.launch.from_revision or self._world.revision + 1
        for spec, share in settled:
            self._start_group(spec, share, from_revision)
        self._heads.start(self.ledger.flush_now_and_then(LEDGER_FLUSH_S), "ledger flush")

    def statistics(self) -> dict[str, TurnsStatistics]:
        """How full each group is."""
        return {name: turns.statistics() for name, turns in self._groups.items()}

    @property
    def is_budget_spent(self) -> bool:
        """Whether a budget has refused a question here: what asks that model only ends as `budget` from now on."""
        return any(model.is_exhausted for model in self._models.values())

    async def wait_failed(self) -> None:
        """Wait for ever, or raise what ended a stage for good."""
        await asyncio.wait({self.tasks.failure, self._heads.failure}, return_when=asyncio.FIRST_COMPLETED)
        for failure in (self.tasks.failure, self._heads.failure):
            if failure.done():
                failure.result()

    async def stop(self) -> None:
        """Take no more events, cancel turns that have not decided, let commits finish, hand on all records."""
        for watch in self._watches:
            await watch.aclose()
        await self._heads.cancel_all()
        for turns in self._groups.values():
            await turns.stop()
        self.outbox.flush()
        await self.tasks.wait_all(self._settings.stop_timeout_s)
        await self.tasks.cancel_all()
        await self.ledger.flush()
        for model in self._models.values():
            await model.gateway.aclose()

    async def _open_models(self, shares: Mapping[str, tuple[int, int]]) -> None:
        """Open the models that this worker's agents ask, each with the worker's part of its bounds."""
        launch = self._config.launch
        if not launch.models:
            return
        member = f"{launch.run}.{launch.node}.worker-{self._config.index:02d}"
        rows = sum(stop - start for start, stop in shares.values())
        share = rows / max(1, sum(count_rows(spec) for spec in launch.groups))
        run_budget = await open_budget(launch.budget, share=share, world=self._world, member=member)
        for name, settings in launch.models.items():
            asking = [spec for spec in launch.groups if name in spec.models()]
            here = sum(shares[spec.name][1] - shares[spec.name][0] for spec in asking if spec.name in shares)
            if here:
                total = sum(count_rows(spec) for spec in asking)
                self._models[name] = await open_model(
                    name,
                    settings,
                    seed=launch.seed,
                    share=here / total,
                    world=self._world,
                    member=member,
                    run_budget=run_budget,
                    tally=self.spent,
                )

    def _start_group(self, spec: GroupSpec, share: tuple[int, int], from_revision: int) -> None:
        launch = self._config.launch
        seed = launch.seed if spec.seed is None else spec.seed
        group = GroupInfo(spec.name, spec.parameters, seed)
        cohort = Cohort(open_agents(spec.agents, share))
        desk = Desk(
            spec=spec,
            group=group,
            world=self._world,
            models=ModelChoice(self._models, spec.model, seed),
            places=self._places,
            outbox=self.outbox,
            ledger=self.ledger,
            clock=self._clock,
            tasks=self.tasks,
            notices_waiting_max=self._settings.notices_waiting_max,
        )
        agent_class = find_agent_class(spec.agent, f"groups.{spec.name}.agent")
        turns: ColumnTurns | SingleTurns
        if issubclass(agent_class, RuleAgents):
            agents = make_rule_agents(agent_class, group)
            linger_s = self._settings.linger_ms / 1000
            turns = ColumnTurns(desk, cohort, agents, self._settings.block_ops_max, linger_s)
        else:
            check_group(agent_class, group)
            turns = SingleTurns(desk, cohort, agent_class)
            self._heads.start(turns.sweep(), f"sweep {spec.name}")
        rules = WakeRules(spec.wake)
        watch = self._world.watch_frames(rules.event_filter, from_revision=from_revision)
        feed = GroupFeed(rules, turns.deliver, self._clock)
        self._groups[spec.name] = turns
        self._watches.append(watch)
        self._heads.start(turns.run(), f"turns {spec.name}")
        self._heads.start(feed.run(watch), f"feed {spec.name}")
        self.agents += len(cohort)


def make_rule_agents(agent_class: type[RuleAgents], group: GroupInfo) -> RuleAgents:
    """The object of a group of rule agents. Raises LaunchError."""
    try:
        return agent_class(group)
    except (ValueError, TypeError) as error:
        raise LaunchError(f"groups.{group.name}.parameters", str(error)) from error


def check_group(agent_class: type[Agent], group: GroupInfo) -> None:
    """Raises LaunchError if no agent of the class can live with the group's parameters."""
    try:
        agent_class.check_group(group)
    except (ValueError, TypeError) as error:
        raise LaunchError(f"groups.{group.name}.parameters", str(error)) from error


def count_rows(spec: GroupSpec) -> int:
    """Agents of a group. Raises LaunchError."""
    return len(open_agents(spec.agents, spec.rows))
