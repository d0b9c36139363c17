"""Opens a model of a launch: one gateway in each worker that has agents who ask it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_runtime.gateways.endpoints import open_endpoints
from agent_runtime.gateways.limits import open_limits
from agent_runtime.gateways.models import Model
from agent_runtime.llm import Gateway
from agent_runtime.llm.admission import Budget, Load, SharedBudget
from agent_runtime.llm.settings import ModelSettings
from agent_runtime.llm.spending import Price, Tally

if TYPE_CHECKING:
    from ecumene.client import World


async def open_model(
    name: str,
    settings: ModelSettings,
    *,
    seed: int,
    share: float,
    world: World | None = None,
    member: str = "worker",
    run_budget: Budget | SharedBudget | None = None,
    tally: Tally | None = None,
    spent: Load | None = None,
    holds_when_spent: bool = False,
) -> Model:
    """A model of a launch; `share` in (0, 1] is this worker's part of the node's bounds and budget.

    `member` names this worker among those who share a quota of `world`. `spent` is what was spent of a budget without
    quota before, where a run goes on; a quota knows that by itself.

    Raises LaunchError, ModelSetupError, EcumeneError.
    """
    windows, budgets = await open_limits(name, settings, share, world, member, spent, holds_when_spent)
    if run_budget is not None:
        budgets.append(run_budget)
    cache = None
    if settings.cache is not None:
        from agent_runtime.llm.records.cache import SqliteCache

        cache = await SqliteCache.open(settings.cache, bytes_max=settings.cache_bytes_max)
    gateway = Gateway(
        await open_endpoints(name, settings, seed, share),
        model=settings.model,
        queue_max=round(settings.queue_max * share),
        timeout_s=settings.timeout_s,
        attempts_max=settings.attempts_max,
        retry_total_s=settings.retry_total_s,
        repairs_max=settings.repairs_max,
        is_two_call=settings.two_call,
        limits=[*windows, *budgets],
        price=Price(settings.price.prompt, settings.price.completion),
        cache=cache,
    )
    return Model(name, gateway, settings, Tally() if tally is None else tally, tuple(budgets), tuple(windows))
