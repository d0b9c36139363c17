"""Budgets of a run: kept by quotas of its world, watched while it is conducted, raised when it is gone on with.

spec ──► quotas of the world ──► workers draw from them ──► one is spent: questions are held back
               ▲                                               │ spent/exhausted
a larger one ──┘                                    the conductor stops the run, no turn lost
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, cast

from ecumene.client.errors import EcumeneError
from ecumene.client.model import EventFilter, EventType, Json
from ecumene.client.reasons import EnvironmentNotFoundError
from ecumene.client.watches import Watch
from ecumene.client.world import World
from ecumene.launch.run_spending import EXHAUSTED, RunSpending, find_spent_path, read_spending
from ecumene.sim.specs.errors import SpecError, SpecProblem
from ecumene.sim.specs.spec import RunSpec, parse_spec

QUOTAS_PATH = "/runtime/quotas"
QUOTA_KIND = "quota"
RATE_LIMITS = ("requests_per_minute", "tokens_per_minute")
BUDGET_LIMITS = ("tokens_max", "microdollars_max")
RUN = "run"
"""Whose budget it is that holds for all models."""


@dataclass(frozen=True, slots=True)
class Quota:
    """A limit that the world of the run keeps."""

    name: str
    limits: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Quotas:
    """Those of one run. Models that name a quota of their own have none here."""

    of_run: Quota | None = None
    of_models: Mapping[str, Quota] = field(default_factory=dict)

    def list_all(self) -> list[Quota]:
        """All of them."""
        return [*([self.of_run] if self.of_run else []), *self.of_models.values()]


class BudgetSpentError(EcumeneError):
    """A budget did not pay for a question, and the run was stopped; all of it is kept.

    Attributes:
        whose: `run`, or the model as the spec calls it.
        unit: `tokens` or `microdollars`.
        maximum: of the budget.
        spending: of the run, all in all.
    """

    def __init__(self, whose: str, unit: str, maximum: int, spending: RunSpending) -> None:
        self.whose = whose
        self.unit = unit
        self.maximum = maximum
        self.spending = spending
        budget = f"the budget of {maximum:,} {unit}" + ("" if whose == RUN else f" of model {whose}")
        spent = f"{spending.tokens:,} tokens and {spending.microdollars:,} microdollars"
        super().__init__(f"{budget} is spent: the run has taken {spent}")


def plan_quotas(spec: RunSpec, run: str, *, over_nodes: bool) -> Quotas:
    """The quotas that a run needs in its world: for its budgets.

    Over nodes all limits are kept there, also those that are not set: what nodes are launched with stays the same then,
    whatever is set later.
    """
    of_models = {}
    for name, model in spec.list_models().items():
        limits = _list_limits(model, RATE_LIMITS) | _list_limits(model, BUDGET_LIMITS)
        if model.quota is None and (model.has_budget or over_nodes):
            of_models[name] = Quota(_name_quota(run, name), limits)
    of_run = _list_limits(spec.budget, BUDGET_LIMITS)
    return Quotas(Quota(_name_quota(run, RUN), of_run) if of_run or over_nodes else None, of_models)


def describe_budget(quotas: Quotas) -> dict[str, Any]:
    """The budget of a launch. What is not paid for waits: it is the conductor who ends the run."""
    return {"quota": None if quotas.of_run is None else quotas.of_run.name, "when_spent": "hold"}


def raise_budgets(spec: RunSpec, changes: Mapping[str, Mapping[str, int]]) -> RunSpec:
    """The spec with other budgets: `changes` has limit -> whose (`run`, or a model's name) -> the new maximum.

    Raises SpecError.
    """
    document = spec.to_document()
    for limit, by_whom in changes.items():
        for whose, maximum in by_whom.items():
            if whose == RUN:
                document["budget"][limit] = maximum
                continue
            model = spec.list_models().get(whose)
            if model is None or model.quota is not None:
                known = ", ".join(name for name, one in spec.list_models().items() if one.quota is None)
                problem = f"no model of this run has a budget of its own and is called {whose!r}; there are {known}"
                raise SpecError(limit, [SpecProblem("", problem)])
            (document["models"][whose] if spec.models else document["model"])[limit] = maximum
    return parse_spec(document, source="the run's spec")


async def keep_quotas(world: World, quotas: Quotas) -> None:
    """Make the quotas, or give those that are there the limits of now. Raises EcumeneError."""
    if not quotas.list_all():
        return
    for path in ("/runtime", QUOTAS_PATH):
        await world.environment(path).register(if_absent=True)
    for quota in quotas.list_all():
        limits = cast(dict[str, Json], dict(quota.limits))
        environment = world.environment(f"{QUOTAS_PATH}/{quota.name}")
        await environment.register(kind=QUOTA_KIND, config=limits, if_absent=True)
        if (await environment.describe()).config != limits:
            await environment.change(merge_config=limits)


class BudgetWatch:
    """Async context manager: knows when a budget of a run is spent, from its entering on."""

    def __init__(self, world: World, run: str, models: Mapping[str, str]) -> None:
        """`models`: what the spec calls those of the launch, by their names there."""
        self._world = world
        self._run = run
        self._models = models
        self._watch: Watch | None = None

    async def __aenter__(self) -> BudgetWatch:
        path = find_spent_path(self._run)
        try:
            # That an earlier life of the run came to its end.
            await self._world.environment(path).delete(EXHAUSTED, if_present=True)
        except EnvironmentNotFoundError:
            pass
        wanted = EventFilter(path_prefix=path, key_glob=EXHAUSTED, types=(EventType.ENTRY_SET,))
        self._watch = self._world.watch(wanted)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._watch is not None:
            await self._watch.aclose()

    async def wait_spent(self) -> Mapping[str, Any]:
        """Until a budget is spent; whose, its unit and its maximum. Raises EcumeneError."""
        assert self._watch is not None
        async for event in self._watch:
            if isinstance(event.value, dict):
                return event.value
        raise AssertionError("the watch ends without an error only when this is left")

    async def describe(self, told: Mapping[str, Any]) -> BudgetSpentError:
        """The error of what `wait_spent` told; once the run has stopped, with all that it has spent."""
        spending = await read_spending(self._world, self._run)
        whose = str(told["whose"])
        return BudgetSpentError(self._models.get(whose, whose), str(told["unit"]), int(told["maximum"]), spending)


def _list_limits(holder: Any, names: tuple[str, ...]) -> dict[str, int]:
    return {name: getattr(holder, name) for name in names if getattr(holder, name) is not None}


def _name_quota(run: str, whose: str) -> str:
    """A name within the bounds of one: several runs of a world must not meet in it."""
    return f"budget-{blake2b(f'{run}/{whose}'.encode(), digest_size=8).hexdigest()}"
