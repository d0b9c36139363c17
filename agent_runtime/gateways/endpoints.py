"""The endpoints of a model, by its settings: each provider brings what only it needs."""

from __future__ import annotations

from collections.abc import Sequence

from agent_runtime.agents.scripted_answers import find_answers
from agent_runtime.llm import Provider
from agent_runtime.llm.endpoints import Endpoint
from agent_runtime.llm.providers.scripted import ScriptedProvider
from agent_runtime.llm.settings import EndpointSettings, ModelSettings
from agent_runtime.model.errors import LaunchError


async def open_endpoints(name: str, settings: ModelSettings, seed: int, share: float) -> Sequence[Endpoint]:
    """Those of one model; `share` as in `open_model`. Raises LaunchError, ModelSetupError."""

    def make(provider: Provider, label: str = "", weight: float = 1.0, most: int | None = None) -> Endpoint:
        return Endpoint(
            provider,
            name=label or name,
            weight=weight,
            in_flight_max=bound_calls(settings, most, share),
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


def bound_calls(settings: ModelSettings, own: int | None, share: float) -> int:
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
    answer = find_answers(settings.answers, f"models.{name}.answers", seed)
    return ScriptedProvider(answer, seed=seed, latency=settings.latency.distribution(), faults=settings.faults.rates())
