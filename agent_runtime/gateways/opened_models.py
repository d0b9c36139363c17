"""The models that the agents of a worker ask, opened when the first of them comes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b

from ecumene.client import World

from agent_runtime.agents.cohort import open_agents
from agent_runtime.gateways.limits import open_budget
from agent_runtime.gateways.models import Model, ModelChoice
from agent_runtime.gateways.opening import open_model
from agent_runtime.llm.admission import Budget, Load, SharedBudget
from agent_runtime.llm.spending import Tally
from agent_runtime.model.errors import BudgetExceededError
from agent_runtime.model.parts import Part
from agent_runtime.settings import GroupSpec, Launch

MEMBER_CHARS_MAX = 128


class OpenedModels:
    """Models by name, one gateway each, and what all of them have cost."""

    def __init__(self, launch: Launch, world: World, index: int) -> None:
        """`index` is the worker's."""
        self._launch = launch
        self._world = world
        self._member = name_member(f"{launch.run}.{launch.node}.worker-{index:02d}")
        self._models: dict[str, Model] = {}
        self._parts: dict[str, dict[str, int]] = {}
        """Agents of each part that has come here, by the model that they ask."""
        self._opening = asyncio.Lock()
        self._run_budget: Budget | SharedBudget | None = None
        self._has_budget = False
        self.spent_before: Mapping[str, Load] = {}
        """What each model had cost the run before this worker began; budgets that are no quota go on from there."""
        self.spent = Tally()
        """What models have cost, by model and phase."""

    async def open(self, parts: Sequence[Part]) -> None:
        """Open what the agents of these parts ask and is not open yet.

        A model's bounds are shared out by the agents that have come here so far; its budget and the run's, where they
        are no quota, by those that come first.

        Raises LaunchError, ModelSetupError, EcumeneError.
        """
        asked_by = {spec.name: spec.models() for spec in self._launch.groups}
        async with self._opening:
            for name in self._launch.models:
                asking = [part for part in parts if name in asked_by.get(part.group, ())]
                agents = sum(map(len, asking))
                if agents and name not in self._models:
                    self._models[name] = await self._open(name, agents, sum(map(len, parts)))
                known = self._parts.setdefault(name, {})
                if any(part.name not in known for part in asking):
                    known.update((part.name, len(part)) for part in asking)
                    self._models[name].widen(_share(sum(known.values()), self._count_asking(name)))

    @property
    def is_budget_spent(self) -> bool:
        """Whether a budget has refused a question, or held it back."""
        return self.refusal is not None

    @property
    def refusal(self) -> BudgetExceededError | None:
        """Why a budget has refused a question, or held it back."""
        return next((model.refusal for model in self._models.values() if model.refusal is not None), None)

    @property
    def in_flight(self) -> int:
        """Calls at endpoints."""
        return sum(model.gateway.statistics().in_flight for model in self._models.values())

    def choose(self, spec: GroupSpec, seed: int) -> ModelChoice:
        """Which of them the agents of a group ask."""
        return ModelChoice(self._models, spec.model, seed)

    async def give_back(self) -> None:
        """Give back what is left of limits that the world shares out; `aclose` follows."""
        await asyncio.gather(*(model.gateway.give_back() for model in self._models.values()))

    async def aclose(self) -> None:
        """Close all of them."""
        for model in self._models.values():
            await model.gateway.aclose()

    def _count_asking(self, name: str) -> int:
        return sum(count_rows(spec) for spec in self._launch.groups if name in spec.models())

    async def _open(self, name: str, agents: int, agents_here: int) -> Model:
        launch = self._launch
        if not self._has_budget:
            everybody = sum(map(count_rows, launch.groups))
            share = _share(agents_here, everybody)
            self._run_budget = await open_budget(
                launch.budget,
                share=share,
                world=self._world,
                member=self._member,
                spent=_take_share(self.spent_before.values(), share),
            )
            self._has_budget = True
        share = _share(agents, self._count_asking(name))
        return await open_model(
            name,
            launch.models[name],
            seed=launch.seed,
            share=share,
            world=self._world,
            member=self._member,
            run_budget=self._run_budget,
            tally=self.spent,
            spent=_take_share((self.spent_before.get(name, Load()),), share),
            holds_when_spent=launch.budget.when_spent == "hold",
        )


def name_member(name: str) -> str:
    """A worker's name among those who share a quota, which takes no longer ones; another for each other worker."""
    if len(name) <= MEMBER_CHARS_MAX:
        return name
    digest = blake2b(name.encode(), digest_size=16).hexdigest()
    return f"{name[: MEMBER_CHARS_MAX - len(digest) - 1]}.{digest}"


def count_rows(spec: GroupSpec) -> int:
    """Agents of a group. Raises LaunchError."""
    return len(open_agents(spec.agents, spec.rows))


def _take_share(spent: Iterable[Load], share: float) -> Load:
    loads = list(spent)
    tokens, microdollars = sum(load.tokens for load in loads), sum(load.microdollars for load in loads)
    return Load(round(tokens * share), round(microdollars * share))


def _share(agents: int, total: int) -> float:
    return min(1.0, agents / total) if total else 1.0
