"""The models that the agents of a worker ask, opened when the first of them comes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from ecumene.client import World

from agent_runtime.agents.cohort import open_agents
from agent_runtime.llm.admission import Budget, SharedBudget
from agent_runtime.llm.spending import Tally
from agent_runtime.model.parts import Part
from agent_runtime.settings import GroupSpec, Launch
from agent_runtime.turns.gateways import Model, ModelChoice, open_budget, open_model


class OpenedModels:
    """Models by name, one gateway each, and what all of them have cost."""

    def __init__(self, launch: Launch, world: World, index: int) -> None:
        """`index` is the worker's."""
        self._launch = launch
        self._world = world
        self._member = f"{launch.run}.{launch.node}.worker-{index:02d}"
        self._models: dict[str, Model] = {}
        self._opening = asyncio.Lock()
        self._run_budget: Budget | SharedBudget | None = None
        self._has_budget = False
        self.spent = Tally()
        """What models have cost, by model and phase."""

    async def open(self, parts: Sequence[Part]) -> None:
        """Open what the agents of these parts ask and is not open yet: a model's bounds and the run's budget are shared
        out by the agents that come first.

        Raises LaunchError, ModelSetupError, EcumeneError.
        """
        asked_by = {spec.name: spec.models() for spec in self._launch.groups}
        async with self._opening:
            for name in self._launch.models:
                agents = sum(len(part) for part in parts if name in asked_by.get(part.group, ()))
                if agents and name not in self._models:
                    self._models[name] = await self._open(name, agents, sum(map(len, parts)))

    @property
    def is_budget_spent(self) -> bool:
        """Whether a budget has refused a question."""
        return any(model.is_exhausted for model in self._models.values())

    def choose(self, spec: GroupSpec, seed: int) -> ModelChoice:
        """Which of them the agents of a group ask."""
        return ModelChoice(self._models, spec.model, seed)

    async def aclose(self) -> None:
        """Close all of them."""
        for model in self._models.values():
            await model.gateway.aclose()

    async def _open(self, name: str, agents: int, agents_here: int) -> Model:
        launch = self._launch
        if not self._has_budget:
            everybody = sum(map(count_rows, launch.groups))
            self._run_budget = await open_budget(
                launch.budget, share=_share(agents_here, everybody), world=self._world, member=self._member
            )
            self._has_budget = True
        asking = sum(count_rows(spec) for spec in launch.groups if name in spec.models())
        return await open_model(
            name,
            launch.models[name],
            seed=launch.seed,
            share=_share(agents, asking),
            world=self._world,
            member=self._member,
            run_budget=self._run_budget,
            tally=self.spent,
        )


def count_rows(spec: GroupSpec) -> int:
    """Agents of a group. Raises LaunchError."""
    return len(open_agents(spec.agents, spec.rows))


def _share(agents: int, total: int) -> float:
    return min(1.0, agents / total) if total else 1.0
