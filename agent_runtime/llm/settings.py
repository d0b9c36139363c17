"""The settings of models: part of the launch description. Plain data."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from agent_runtime.llm.latency import (
    ExponentialLatency,
    FixedLatency,
    LatencyDistribution,
    LognormalLatency,
    UniformLatency,
)
from agent_runtime.llm.providers.scripted import FaultRates

ENGINE_START_TIMEOUT_S = 900.0
"""What one engine of provider `vllm` may take to load its model."""

Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,39}$")]
Share = Annotated[float, Field(ge=0, le=1)]
Milliseconds = Annotated[float, Field(ge=0, le=86_400_000, allow_inf_nan=False)]
Seconds = Annotated[float, Field(ge=0, le=86_400, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0, le=2**63 - 1)]


def _refuse_credentials(address: str) -> str:
    """Settings are kept in the world and in records, for everybody to read."""
    if "@" in re.split(r"[/?#]", re.sub(r"^([\w+.-]*:)?[/\\]*", "", address))[0]:
        raise ValueError("holds credentials; give the key by api_key_env or api_key_file")
    return address


BaseUrl = Annotated[str, AfterValidator(_refuse_credentials)]


class Frozen(BaseModel):
    """Settings that refuse what they do not know."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Thinking(Frozen):
    """Simulated thinking time, as a distribution over agents and turns; `kind` says which fields count."""

    kind: Literal["fixed", "uniform", "lognormal", "exponential"] = "fixed"
    ms: Milliseconds = 0.0
    low_ms: Milliseconds = 0.0
    high_ms: Milliseconds = 0.0
    median_ms: Milliseconds = 0.0
    sigma: Annotated[float, Field(ge=0, le=5)] = 0.0
    mean_ms: Milliseconds = 0.0

    @model_validator(mode="after")
    def _check(self) -> Self:
        self.distribution()
        return self

    def distribution(self) -> LatencyDistribution:
        """What to draw from."""
        if self.kind == "uniform":
            return UniformLatency(self.low_ms, self.high_ms)
        if self.kind == "lognormal":
            return LognormalLatency(self.median_ms, self.sigma)
        if self.kind == "exponential":
            return ExponentialLatency(self.mean_ms)
        return FixedLatency(self.ms)


class Faults(Frozen):
    """Shares of a scripted model's calls that fail, each in its way; see `FaultRates`."""

    timeout: Share = 0.0
    unavailable: Share = 0.0
    garbage: Share = 0.0
    truncated: Share = 0.0
    refused: Share = 0.0

    @model_validator(mode="after")
    def _check(self) -> Self:
        self.rates()
        return self

    def rates(self) -> FaultRates:
        """The same, as the provider takes it."""
        return FaultRates(**self.model_dump())


class EndpointSettings(Frozen):
    """One of several endpoints of a model of provider `openai`; what is not given is as the model's own.

    Attributes:
        weight: its share of the calls, in relation to the others'.
    """

    base_url: Annotated[BaseUrl, Field(min_length=1)]
    weight: Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)] = 1.0
    in_flight_max: Annotated[Count, Field(ge=1)] | None = None
    api_key_env: str | None = None
    api_key_file: Path | None = None


class PriceSettings(Frozen):
    """Microdollars (millionths of a dollar) for a million tokens: 150000 is 15 cents."""

    prompt: Count = 0
    completion: Count = 0


class VllmSettings(Frozen):
    """Engines of provider `vllm` in this process.

    Attributes:
        engines: how many; calls go to the one with the least load.
        gpus: GPUs of each engine, `tensor_parallel_size`: engine 0 gets the first ones, and so on; 0 = let vllm choose.
        arguments: further arguments of vllm's AsyncEngineArgs, such as `max_model_len`.
    """

    engines: Annotated[int, Field(ge=1, le=1024)] = 1
    gpus: Annotated[int, Field(ge=0, le=1024)] = 1
    arguments: Mapping[str, Any] = {}


class ModelSettings(Frozen):
    """A model that agents ask. Bounds count per node, and workers share them out, unless `quota` names one.

    Attributes:
        model: the name that the endpoint knows and the records show.
        base_url, api_key_env, api_key_file, max_tokens_field: of provider `openai`.
        endpoints: of provider `openai`, in place of `base_url`: several that serve the same model.
        answers: of provider `scripted`: `module:function`, see `ScriptedProvider`; or the parameters of a rule player
            that answers in its place, such as `{"player": "level-k", "level": 1}`.
        latency, faults: of provider `scripted`.
        slots, context_tokens, threads: of provider `local`.
        replay_from: of provider `replay`: the directory of a run that was recorded with `record_bodies`.
        vllm: of provider `vllm`.
        temperature: None = the endpoint's default; an agent's own stands in the column `temperature_column` of its
            profile, if there is one.
        max_tokens: of an answer.
        two_call: let the model answer freely, and extract the value by a second call.
        prompt_tokens_max: a longer prompt, as estimated, ends the turn with status `budget` before it is sent.
        turn_tokens_max: what all calls of one turn may take, sent and received.
        tokens_max, microdollars_max: what may be spent in all; then turns end with status `budget`.
        price: in microdollars a million tokens.
        requests_per_minute, tokens_per_minute: what no 60 seconds may exceed.
        quota: name of a quota in the world: then those two and the budget hold over all who name it. Without any of
            them the quota has to be there, and its own limits hold.
        seed_answers: send a sampling seed of its own for each agent, turn and call. An agent whose profile has a number
            in the column `seed_column` always gets one, which follows from that number.
        record_bodies: keep messages and answers in the records of calls.
        in_flight_max: calls at the model's endpoints at a time; each of several `endpoints` may have its own.
        breaker_failures: failures in a row after which an endpoint is left alone for a while; 0 = never, as it is for
            `scripted` and `replay`.
        cache: a file that keeps answers; an identical request then gets the answer that was given before.
        cache_bytes_max: what the file may hold; the oldest answers make room.
    """

    provider: Literal["scripted", "openai", "local", "replay", "vllm"]
    model: str = "scripted"
    temperature: Annotated[float, Field(ge=0, le=10)] | None = None
    temperature_column: str | None = "temperature"
    max_tokens: Annotated[int, Field(ge=1)] = 256
    two_call: bool = False
    prompt_tokens_max: Annotated[Count, Field(ge=1)] | None = None
    turn_tokens_max: Annotated[Count, Field(ge=1)] | None = None
    tokens_max: Count | None = None
    microdollars_max: Count | None = None
    price: PriceSettings = PriceSettings()
    requests_per_minute: Annotated[Count, Field(ge=1)] | None = None
    tokens_per_minute: Annotated[Count, Field(ge=1)] | None = None
    quota: Name | None = None
    seed_answers: bool = False
    seed_column: str | None = "seed"
    record_bodies: bool = False
    in_flight_max: Annotated[int, Field(ge=1, le=1_000_000)] = 64
    queue_max: Annotated[int, Field(ge=0, le=10_000_000)] = 1024
    timeout_s: Annotated[Seconds, Field(gt=0)] = 60.0
    attempts_max: Annotated[int, Field(ge=1, le=1000)] = 5
    retry_total_s: Seconds = 180.0
    repairs_max: Annotated[int, Field(ge=0, le=100)] = 1
    breaker_failures: Annotated[int, Field(ge=0)] = 5
    base_url: BaseUrl = ""
    api_key_env: str | None = None
    api_key_file: Path | None = None
    max_tokens_field: str = "max_tokens"
    endpoints: tuple[EndpointSettings, ...] = ()
    answers: str | Mapping[str, Any] = ""
    latency: Thinking = Thinking()
    faults: Faults = Faults()
    slots: Annotated[int, Field(ge=1, le=4096)] = 16
    context_tokens: Annotated[int, Field(ge=256)] = 2048
    threads: Annotated[int, Field(ge=1, le=1024)] = 2
    replay_from: Path | None = None
    vllm: VllmSettings = VllmSettings()
    cache: Path | None = None
    cache_bytes_max: Annotated[int, Field(ge=1)] = 256 * 1024 * 1024

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.endpoints and self.base_url:
            raise ValueError("a model has either base_url or endpoints")
        if self.provider == "replay" and self.replay_from is None:
            raise ValueError("provider replay needs replay_from, the directory of a recorded run")
        return self


class ModelMix(Frozen):
    """Which model each agent of a group asks, for its whole life.

    By `weights`: drawn for each agent by its id and the seed. By `assigned`: the value of the profile's column
    `attribute` names the model, or `otherwise` does.
    """

    weights: Mapping[str, Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]] = {}
    attribute: str | None = None
    assigned: Mapping[str, str] = {}
    otherwise: str | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if bool(self.weights) == (self.attribute is not None):
            raise ValueError("a mix has either weights or an attribute")
        if self.weights and not sum(self.weights.values()) > 0:
            raise ValueError("the weights of a mix sum to 0")
        if self.attribute is not None and not self.assigned and self.otherwise is None:
            raise ValueError("a mix by attribute names a model for at least one value")
        return self

    def models(self) -> frozenset[str]:
        """The models it names."""
        last = () if self.otherwise is None else (self.otherwise,)
        return frozenset((*self.weights, *self.assigned.values(), *last))


class RunBudget(Frozen):
    """What all models of a run may spend together; then turns end with status `budget`.

    Attributes:
        quota: name of a quota in the world, by which it holds over all nodes; without one it counts per node, and
            workers share it out. Without limits here the quota has to be there, and its own hold.
        when_spent: what becomes of questions that a budget, the run's or a model's, does not pay for: `end` their turns
            with status `budget`, or `hold` them back until the run is stopped: the turn is then taken again when the
            run is gone on with. Whoever conducts the run is told by the entry `spent/exhausted` of the run.
    """

    tokens_max: Count | None = None
    microdollars_max: Count | None = None
    quota: Name | None = None
    when_spent: Literal["end", "hold"] = "end"
