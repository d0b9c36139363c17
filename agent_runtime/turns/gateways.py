"""Opens the models of a launch: one gateway a model in each worker that has agents who ask it."""

from __future__ import annotations

from dataclasses import dataclass

from agent_runtime.agents.registry import find_function
from agent_runtime.llm import Gateway, Provider
from agent_runtime.llm.providers.scripted import ScriptedProvider
from agent_runtime.model.errors import BudgetExceededError, LaunchError
from agent_runtime.settings import ModelSettings

PLAYER_ANSWERS = "agent_runtime.agents.scripted_answers:guess_number"


@dataclass(slots=True)
class Model:
    """A gateway, its settings, and what of its budget is spent."""

    gateway: Gateway
    settings: ModelSettings
    tokens_max: int | None
    tokens_spent: int = 0

    def check_budget(self) -> None:
        """Raises BudgetExceededError if no further question may be asked. Questions in flight may overrun it."""
        if self.tokens_max is not None and self.tokens_spent >= self.tokens_max:
            raise BudgetExceededError(self.settings.model, self.tokens_spent, self.tokens_max)


async def open_model(name: str, settings: ModelSettings, *, seed: int, share: float) -> Model:
    """A model of a launch; `share` in (0, 1] is this worker's part of the node's bounds and budget.

    Raises LaunchError, ModelSetupError.
    """
    in_flight_max = max(1, round(settings.in_flight_max * share))
    if settings.provider == "local":
        in_flight_max = min(in_flight_max, settings.slots)
    gateway = Gateway(
        await _open_provider(name, settings, seed, in_flight_max),
        in_flight_max=in_flight_max,
        queue_max=round(settings.queue_max * share),
        timeout_s=settings.timeout_s,
        attempts_max=settings.attempts_max,
        retry_total_s=settings.retry_total_s,
        repairs_max=settings.repairs_max,
    )
    tokens_max = None if settings.tokens_max is None else round(settings.tokens_max * share)
    return Model(gateway, settings, tokens_max)


async def _open_provider(name: str, settings: ModelSettings, seed: int, connections_max: int) -> Provider:
    if settings.provider == "local":
        # Brings packages that only this provider needs.
        from agent_runtime.llm.providers.local import LocalProvider

        return await LocalProvider.start(
            slots=settings.slots,
            context_tokens=settings.context_tokens,
            threads=settings.threads,
        )
    if settings.provider == "openai":
        # An HTTP client is a fifth of a worker's start, and most worlds of rule agents need none.
        from agent_runtime.llm.providers.openai import ApiKey, OpenAIProvider

        if not settings.base_url:
            raise LaunchError(f"models.{name}.base_url", "provider openai needs the address of an endpoint")
        key = ApiKey.read(variable=settings.api_key_env, file=settings.api_key_file)
        return OpenAIProvider(
            settings.base_url,
            api_key=key,
            connections_max=connections_max,
            timeout_s=settings.timeout_s,
            max_tokens_field=settings.max_tokens_field,
        )
    answer = find_function(settings.answers or PLAYER_ANSWERS, f"models.{name}.answers")
    return ScriptedProvider(answer, seed=seed, latency=settings.latency.distribution(), faults=settings.faults.rates())
