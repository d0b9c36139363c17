"""Opens the models of a launch: one gateway a model in each worker that has agents who ask it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent_runtime.agents.registry import find_function
from agent_runtime.llm import Gateway, ModelSetupError, Provider
from agent_runtime.llm.admission import Budget, Load, RateWindow, SharedBudget, SharedWindow
from agent_runtime.llm.endpoints import Endpoint
from agent_runtime.llm.providers.scripted import ScriptedProvider
from agent_runtime.llm.settings import EndpointSettings, ModelMix, ModelSettings, RunBudget
from agent_runtime.llm.spending import Price, Tally
from agent_runtime.model.draws import Draw
from agent_runtime.model.errors import BudgetExceededError, LaunchError
from agent_runtime.turns.quotas import WorldQuota

if TYPE_CHECKING:
    from ecumene.client import World

PLAYER_ANSWERS = "agent_runtime.agents.scripted_answers:guess_number"
MIX_STREAM = 33
RATE_LIMITS = ("requests_per_minute", "tokens_per_minute")
BUDGET_LIMITS = ("tokens_max", "microdollars_max")


@dataclass(frozen=True, slots=True)
class Model:
    """A gateway, its settings, and what was spent by it and the others of this worker."""

    name: str
    gateway: Gateway
    settings: ModelSettings
    tally: Tally
    budgets: tuple[Budget | SharedBudget, ...] = ()
    """What its calls are paid from: the model's own, if there is one, and the run's."""
    windows: tuple[RateWindow | SharedWindow, ...] = ()
    """Limits of a minute."""

    def widen(self, share: float) -> None:
        """Take a larger part of the node's bounds than before, now that more of those who ask live here.

        Budgets without quota stay as they were shared out.
        """
        settings = self.settings
        own = [endpoint.in_flight_max for endpoint in settings.endpoints] or [None] * self.gateway.endpoints
        self.gateway.widen([_bound_calls(settings, most, share) for most in own], round(settings.queue_max * share))
        rates = {limit: getattr(settings, limit) for limit in RATE_LIMITS}
        for window in self.windows:
            if isinstance(window, RateWindow):
                window.widen(**{limit: _take_part(self.name, limit, value, share) for limit, value in rates.items()})

    @property
    def is_exhausted(self) -> bool:
        """Whether a budget has refused a call."""
        return self.refusal is not None

    @property
    def refusal(self) -> BudgetExceededError | None:
        """Why a budget has refused a call, or held it back."""
        return next((budget.refusal for budget in self.budgets if budget.refusal is not None), None)


class ModelChoice:
    """Which model each agent of a group asks."""

    def __init__(self, models: Mapping[str, Model], choice: str | ModelMix | None, seed: int) -> None:
        self._models = models
        self._mix = choice if isinstance(choice, ModelMix) else None
        self._only = models.get(choice) if isinstance(choice, str) else None
        self._seed = seed

    def find(self, agent_id: str, profile: Mapping[str, Any]) -> Model | None:
        """The model of an agent, the same in every turn and worker; None if it has none."""
        if self._mix is None:
            return self._only
        return self._models[choose_model(self._mix, agent_id, profile, self._seed)]


def choose_model(mix: ModelMix, agent_id: str, profile: Mapping[str, Any], seed: int) -> str:
    """The name of an agent's model. Raises ModelSetupError if no model is assigned to its attribute."""
    if mix.attribute is not None:
        value = profile.get(mix.attribute)
        name = mix.assigned.get(str(value), mix.otherwise)
        if name is None:
            raise ModelSetupError("none", f"no model is assigned to {mix.attribute} {value!r}")
        return name
    point = Draw(seed, agent_id, 0, 0, MIX_STREAM).random() * sum(mix.weights.values())
    names = sorted(name for name, weight in mix.weights.items() if weight > 0)
    for name in names:
        point -= mix.weights[name]
        if point < 0:
            return name
    return names[-1]


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
    windows, budgets = await _open_limits(name, settings, share, world, member, spent, holds_when_spent)
    if run_budget is not None:
        budgets.append(run_budget)
    cache = None
    if settings.cache is not None:
        from agent_runtime.llm.records.cache import SqliteCache

        cache = await SqliteCache.open(settings.cache, bytes_max=settings.cache_bytes_max)
    gateway = Gateway(
        await _open_endpoints(name, settings, seed, share),
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


async def _open_limits(
    name: str,
    settings: ModelSettings,
    share: float,
    world: World | None,
    member: str,
    spent: Load | None,
    holds: bool,
) -> tuple[list[RateWindow | SharedWindow], list[Budget | SharedBudget]]:
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
        parts = {limit: _take_part(name, limit, value, share) for limit, value in rates.items()}
        windows.append(RateWindow(settings.model, **parts))
    if any(limit is not None for limit in totals.values()):
        budgets.append(_open_local_budget(name, totals, share, spent, holds))
    return windows, budgets


def _choose_limits(quota: WorldQuota, names: Sequence[str]) -> dict[str, Any]:
    return {name: quota.limits.get(name) for name in names}


def _take_part(name: str, limit: str, value: int | None, share: float) -> int | None:
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


async def _open_endpoints(name: str, settings: ModelSettings, seed: int, share: float) -> Sequence[Endpoint]:
    def make(provider: Provider, label: str = "", weight: float = 1.0, most: int | None = None) -> Endpoint:
        return Endpoint(
            provider,
            name=label or name,
            weight=weight,
            in_flight_max=_bound_calls(settings, most, share),
            # What is made up must not depend on when others failed.
            breaker_failures=0 if settings.provider in ("scripted", "replay") else settings.breaker_failures,
        )

    if settings.provider == "openai":
        if not settings.base_url and not settings.endpoints:
            raise LaunchError(f"models.{name}.base_url", "provider openai needs the address of an endpoint")
        known = settings.endpoints or (EndpointSettings(base_url=settings.base_url),)
        return [
            make(_open_openai(settings, endpoint), endpoint.base_url, endpoint.weight, endpoint.in_flight_max)
            for endpoint in known
        ]
    if settings.provider == "vllm":
        from agent_runtime.llm.providers.vllm import open_engines

        engines = await open_engines(settings.model, settings.vllm)
        return [make(engine, f"{name}.engine-{place}") for place, engine in enumerate(engines)]
    return [make(await _open_provider(name, settings, seed))]


def _bound_calls(settings: ModelSettings, own: int | None, share: float) -> int:
    """Calls at a time of one endpoint, which may have its `own` bound."""
    most = max(1, round((settings.in_flight_max if own is None else own) * share))
    return min(most, settings.slots) if settings.provider == "local" else most


def _open_openai(settings: ModelSettings, endpoint: EndpointSettings) -> Provider:
    # An HTTP client is a fifth of a worker's start, and most worlds of rule agents need none.
    from agent_runtime.llm.providers.openai import ApiKey, OpenAIProvider

    own_key = endpoint.api_key_env is not None or endpoint.api_key_file is not None
    source: EndpointSettings | ModelSettings = endpoint if own_key else settings
    return OpenAIProvider(
        endpoint.base_url,
        api_key=ApiKey.read(variable=source.api_key_env, file=source.api_key_file),
        connections_max=endpoint.in_flight_max or settings.in_flight_max,
        max_tokens_field=settings.max_tokens_field,
    )


async def _open_provider(name: str, settings: ModelSettings, seed: int) -> Provider:
    if settings.provider == "local":
        # Brings packages that only this provider needs.
        from agent_runtime.llm.providers.local import LocalProvider

        return await LocalProvider.start(
            slots=settings.slots,
            context_tokens=settings.context_tokens,
            threads=settings.threads,
        )
    if settings.provider == "replay":
        from agent_runtime.llm.providers.replay import ReplayProvider
        from agent_runtime.llm.records import RecordedCalls, RecordedCallsError

        assert settings.replay_from is not None
        try:
            return ReplayProvider(RecordedCalls.load(settings.replay_from))
        except RecordedCallsError as error:
            raise LaunchError(f"models.{name}.replay_from", str(error)) from error
    answer = find_function(settings.answers or PLAYER_ANSWERS, f"models.{name}.answers")
    return ScriptedProvider(answer, seed=seed, latency=settings.latency.distribution(), faults=settings.faults.rates())
