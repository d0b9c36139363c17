"""Whom prompted agents ask: models, their endpoints, limits, budgets and costs."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from ecumene.sim.specs.rule_players import check_rule_player
from ecumene.sim.specs.section import BaseUrl, FilePath, Section

Share = Annotated[float, Field(ge=0, le=1)]
Milliseconds = Annotated[float, Field(ge=0, le=3_600_000)]
Count = Annotated[int, Field(ge=1)]
Total = Annotated[int, Field(ge=0)]
WEIGHT_MAX = 1e9


class EndpointSpec(Section):
    """One of several endpoints that serve the same model; what is not given is as the model's own.

    Attributes:
        url: base URL.
        weight: its share of the calls, in relation to the others'.
        in_flight_max: questions at this endpoint at a time.
        api_key_variable: the environment variable that holds its key.
        api_key_file: the file that holds its key.
    """

    url: BaseUrl
    weight: Annotated[float, Field(gt=0, le=WEIGHT_MAX, allow_inf_nan=False)] = 1.0
    in_flight_max: Count | None = None
    api_key_variable: str | None = None
    api_key_file: FilePath | None = None


class PriceSpec(Section):
    """Microdollars (millionths of a dollar) for a million tokens: 150000 is 15 cents.

    Attributes:
        prompt: of what is sent.
        completion: of what is answered.
    """

    prompt: Total = 0
    completion: Total = 0


class LatencySpec(Section):
    """Simulated thinking time over agents and turns; `kind` says which of the others count.

    Attributes:
        kind: its distribution.
        ms: of `fixed`.
        low_ms, high_ms: the bounds of `uniform`.
        median_ms, sigma: of `lognormal`; sigma is the standard deviation of the logarithm.
        mean_ms: of `exponential`.
    """

    kind: Literal["fixed", "uniform", "lognormal", "exponential"]
    ms: Milliseconds = 0.0
    low_ms: Milliseconds = 0.0
    high_ms: Milliseconds = 0.0
    median_ms: Milliseconds = 0.0
    sigma: Annotated[float, Field(ge=0, le=5)] = 0.0
    mean_ms: Milliseconds = 0.0


class FaultSpec(Section):
    """Shares of a scripted model's calls that fail, each in its way.

    Attributes:
        timeout: never answered.
        unavailable: refused for now, as an overloaded endpoint does.
        garbage: answered by what is no answer.
        truncated: answered by half an answer.
        refused: refused for good.
    """

    timeout: Share = 0.0
    unavailable: Share = 0.0
    garbage: Share = 0.0
    truncated: Share = 0.0
    refused: Share = 0.0

    @model_validator(mode="after")
    def _check_sum(self) -> Self:
        if (total := sum(getattr(self, name) for name in type(self).model_fields)) > 1 + 1e-9:
            raise ValueError(f"the shares sum to {total:g}, more than 1")
        return self


class VllmSpec(Section):
    """Engines of provider `vllm`.

    Attributes:
        engines: how many.
        gpus: of each.
        arguments: further ones of its AsyncEngineArgs.
    """

    engines: Count = 1
    gpus: Total = 1
    arguments: dict[str, Any] = Field(default_factory=dict)


_OWN_FIELDS = {
    "openai": ("endpoints", "api_key_variable", "api_key_file", "max_tokens_field"),
    "scripted": ("latency_ms", "latency", "faults", "answers"),
    "local": ("slots", "context_tokens", "threads"),
    "replay": ("replay_from",),
    "vllm": ("vllm",),
}
"""Provider -> fields that no other has a use for."""


class ModelSpec(Section):
    """Where prompted agents get their answers; docs/models.md tells what each limit does.

    Attributes:
        provider: `scripted` (deterministic, no model), `openai` (any compatible endpoint), `local` (the small model of
            the distribution), `vllm` (engines in the workers), `replay` (a recorded run).
        name: the model, as the endpoint calls it.
        endpoint: base URL, of `openai`, which needs this or endpoints.
        endpoints: several in its place, of `openai`.
        api_key_variable: the environment variable that holds the key; the key itself is never in a spec.
        api_key_file: the file that holds the key.
        max_tokens_field: as which field the endpoint wants `max_tokens`.
        temperature: None = the endpoint's default.
        seed_answers: a sampling seed of its own for each agent, turn and call; None = for `local`.
        max_tokens: bound of one answer.
        two_call: the model answers freely, and a second call extracts the number.
        in_flight_max: questions at the endpoints at a time.
        queue_max: questions that wait, with their messages built.
        requests_per_minute, tokens_per_minute: what no 60 seconds may exceed.
        tokens_max, microdollars_max: what this model may cost in all; then the run stops, and can be gone on with.
        price: needed for any budget of money.
        prompt_tokens_max, turn_tokens_max: a turn that needs more ends with status `budget`.
        quota: a limit that other runs of the world share: all who name it must have the same limits.
        timeout_s: of one call.
        attempts_max: of a call that failed for now.
        retry_total_s: how long such a call is tried again.
        repairs_max: how often an answer that is none is asked for again.
        breaker_failures: failures in a row after which an endpoint is left alone for a while; 0 = never.
        cache: a file that keeps answers to identical questions.
        cache_bytes_max: of that file.
        latency_ms: thinking time of `scripted`, always the same.
        latency: thinking time of `scripted`, by a distribution.
        faults: of `scripted`.
        answers: what answers for `scripted`: a function, as `module:function`, or a rule player of the guess game with
            its parameters, such as `{player: level-k, level: 1}`; None = players of mixed sophistication.
        slots: questions that `local` answers side by side.
        context_tokens: of each slot of `local`.
        threads: of `local`; None = one a core.
        vllm: engines of `vllm`.
        replay_from: of `replay`: the directory of a run that was recorded with `recording.bodies`.
    """

    provider: Literal["scripted", "openai", "local", "replay", "vllm"] = "scripted"
    name: Annotated[str, Field(min_length=1, max_length=200)] = "scripted"
    endpoint: BaseUrl | None = None
    endpoints: Annotated[tuple[EndpointSpec, ...], Field(max_length=100)] = ()
    api_key_variable: str | None = None
    api_key_file: FilePath | None = None
    max_tokens_field: Annotated[str, Field(min_length=1)] = "max_tokens"
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    seed_answers: bool | None = None
    max_tokens: Annotated[int, Field(ge=1, le=100_000)] = 512
    two_call: bool = False
    in_flight_max: Count = 64
    queue_max: Total = 1024
    requests_per_minute: Count | None = None
    tokens_per_minute: Count | None = None
    tokens_max: Total | None = None
    microdollars_max: Total | None = None
    price: PriceSpec = PriceSpec()
    prompt_tokens_max: Count | None = None
    turn_tokens_max: Count | None = None
    quota: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,39}$")] | None = None
    timeout_s: Annotated[float, Field(gt=0, le=3_600)] = 60.0
    attempts_max: Count = 5
    retry_total_s: Annotated[float, Field(ge=0, le=86_400)] = 180.0
    repairs_max: Total = 1
    breaker_failures: Total = 5
    cache: FilePath | None = None
    cache_bytes_max: Count = 256 * 1024 * 1024
    latency_ms: Milliseconds = 0.0
    latency: LatencySpec | None = None
    faults: FaultSpec | None = None
    answers: Annotated[str, Field(pattern=r"^[\w.]+:\w+$")] | dict[str, Any] | None = None
    slots: Annotated[int, Field(ge=1, le=256)] | None = None
    context_tokens: Annotated[int, Field(ge=256)] = 2048
    threads: Count | None = None
    replay_from: FilePath | None = None
    vllm: VllmSpec = VllmSpec()

    @model_validator(mode="after")
    def _check_provider(self) -> Self:
        if (self.provider == "openai") != (self.endpoint is not None or bool(self.endpoints)):
            raise ValueError("endpoint is for provider openai, and needed there")
        if self.endpoint is not None and self.endpoints:
            raise ValueError("give endpoint or endpoints, not both")
        for provider, fields in _OWN_FIELDS.items():
            given = [name for name in fields if getattr(self, name) != type(self).model_fields[name].default]
            if given and provider != self.provider:
                raise ValueError(f"{given[0]} is for provider {provider}")
        if self.provider == "replay" and self.replay_from is None:
            raise ValueError("provider replay needs replay_from, the directory of a recorded run")
        return self

    @model_validator(mode="after")
    def _check_answers(self) -> Self:
        if isinstance(self.answers, dict):
            check_rule_player("answers", self.answers)
        return self

    @model_validator(mode="after")
    def _check_pairs(self) -> Self:
        if self.api_key_variable is not None and self.api_key_file is not None:
            raise ValueError("give api_key_variable or api_key_file, not both")
        if self.latency_ms and self.latency is not None:
            raise ValueError("give latency_ms or latency, not both")
        if self.microdollars_max is not None and not self.has_price:
            raise ValueError("microdollars_max needs a price")
        return self

    @property
    def has_price(self) -> bool:
        """Whether its answers cost anything."""
        return bool(self.price.prompt or self.price.completion)

    @property
    def has_budget(self) -> bool:
        """Whether it has a budget of its own."""
        return self.tokens_max is not None or self.microdollars_max is not None

    def resolve_paths(self) -> ModelSpec:
        """The same with absolute paths, so that it holds in another working directory."""
        paths = {name: getattr(self, name) for name in ("api_key_file", "cache", "replay_from")}
        resolved: dict[str, Any] = {name: path.resolve() for name, path in paths.items() if path is not None}
        resolved["endpoints"] = tuple(
            one if one.api_key_file is None else one.model_copy(update={"api_key_file": one.api_key_file.resolve()})
            for one in self.endpoints
        )
        return self.model_copy(update=resolved)


class BudgetSpec(Section):
    """What all models of a run may cost together; then it stops, and can be gone on with by a larger one.

    Attributes:
        tokens_max: sent and received.
        microdollars_max: millionths of a dollar, by the models' prices.
    """

    tokens_max: Total | None = None
    microdollars_max: Total | None = None
