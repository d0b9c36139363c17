"""The limits of models and of a run: a worker's part of them, or a quota of the world."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agent_runtime.gateways.quotas import WorldQuota
from agent_runtime.llm.admission import Budget, Load, RateWindow, SharedBudget, SharedWindow
from agent_runtime.llm.settings import ModelSettings, RunBudget
from agent_runtime.model.errors import LaunchError

if TYPE_CHECKING:
    from ecumene.client import World

RATE_LIMITS = ("requests_per_minute", "tokens_per_minute")
BUDGET_LIMITS = ("tokens_max", "microdollars_max")


async def open_budget(
    budget: RunBudget, *, share: float, world: World | None, member: str, spent: Load | None = None
) -> Budget | SharedBudget | None:
    """The budget of a run, None if it has none; `share` and `spent` as in `open_model`.

    Raises LaunchError, EcumeneError.
    """
    limits: dict[str, Any] = {"tokens_max": budget.tokens_max, "microdollars_max": budget.microdollars_max}
    holds = budget.when_spent == "hold"
    if budget.quota is not None:
        quota = await _open_quota(world, budget.quota, limits, member)
        return SharedBudget("run", quota, holds=holds, **_choose_limits(quota, BUDGET_LIMITS))
    if budget.tokens_max is None and budget.microdollars_max is None:
        return None
    return _open_local_budget("run", limits, share, spent, holds)


async def open_limits(
    name: str,
    settings: ModelSettings,
    share: float,
    world: World | None,
    member: str,
    spent: Load | None,
    holds: bool,
) -> tuple[list[RateWindow | SharedWindow], list[Budget | SharedBudget]]:
    """Those of one model, of a minute and in all; arguments as in `open_model`. Raises LaunchError, EcumeneError."""
    rates: dict[str, Any] = {limit: getattr(settings, limit) for limit in RATE_LIMITS}
    totals: dict[str, Any] = {limit: getattr(settings, limit) for limit in BUDGET_LIMITS}
    windows: list[RateWindow | SharedWindow] = []
    budgets: list[Budget | SharedBudget] = []
    if settings.quota is not None:
        quota = await _open_quota(world, settings.quota, rates | totals, member)
        rates, totals = _choose_limits(quota, RATE_LIMITS), _choose_limits(quota, BUDGET_LIMITS)
        if any(limit is not None for limit in rates.values()):
            windows.append(SharedWindow(settings.model, quota, **rates))
        if any(limit is not None for limit in totals.values()):
            budgets.append(SharedBudget(name, quota, holds=holds, **totals))
        return windows, budgets
    if any(limit is not None for limit in rates.values()):
        parts = {limit: take_part(name, limit, value, share) for limit, value in rates.items()}
        windows.append(RateWindow(settings.model, **parts))
    if any(limit is not None for limit in totals.values()):
        budgets.append(_open_local_budget(name, totals, share, spent, holds))
    return windows, budgets


def _choose_limits(quota: WorldQuota, names: Sequence[str]) -> dict[str, Any]:
    return {name: quota.limits.get(name) for name in names}


def take_part(name: str, limit: str, value: int | None, share: float) -> int | None:
    """A worker's part of a limit of a minute: rounded down, so that all parts together keep it."""
    if value is None:
        return None
    part = int(value * share + 1e-9)
    if part < 1:
        raise LaunchError(f"models.{name}.{limit}", f"{value} are too few for so many workers: share them by a quota")
    return part


def _open_local_budget(
    whose: str, limits: Mapping[str, int | None], share: float, spent: Load | None, holds: bool
) -> Budget:
    parts = {limit: None if value is None else round(value * share) for limit, value in limits.items()}
    tokens_max, microdollars_max = (parts[limit] for limit in BUDGET_LIMITS)
    return Budget(whose, tokens_max=tokens_max, microdollars_max=microdollars_max, spent=spent, holds=holds)


async def _open_quota(world: World | None, name: str, limits: Mapping[str, int | None], member: str) -> WorldQuota:
    if world is None:
        raise LaunchError(f"quota {name}", "there is no world to keep it")
    return await WorldQuota.open(
        world, name, {key: value for key, value in limits.items() if value is not None}, member
    )
