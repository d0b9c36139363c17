"""What a spec will take: turns and calls as they follow from it, tokens, money and time within bounds that are said."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

from ecumene.sim.checks.installed import Installed, ask_runtime
from ecumene.sim.estimates.askings import MEMORY_TOKENS, TEXT_TOKENS, VALUE_TOKENS, AskedModel, plan_asked
from ecumene.sim.estimates.calls import ModelCalls, count_groups, list_unmeasured, plan_calls
from ecumene.sim.estimates.times import START_S, estimate_round_s, list_late
from ecumene.sim.specs.models import ModelSpec
from ecumene.sim.specs.spec import RunSpec
from ecumene.sim.sweeps.plan import plan_sweep

MICRODOLLARS = 1_000_000
NUMBER_TOKENS = (4.0, 12.0, 40.0)
"""Of an answer that is a number: at least, likely, at most."""
REASONING_TOKENS = (20.0, 200.0, 1_000_000.0)
"""Likewise with reasons; `max_tokens` bounds it."""
SCRIPTED_TOKENS = (5.0, 25.0, 200.0)
"""Of an answer with reasons that is made up by a scripted model."""
EXTRACTION_TOKENS = (10.0, 60.0, 200.0)
"""What the second call of `two_call` asks, beside the first answer, which it is given."""
PROMPT_BOUNDS = (0.6, 1.0, 1.3)
"""The rule errs upwards for English: what endpoints count is within these factors."""
UNKNOWN_PROMPT_TOKENS = (50.0, 400.0, 2_000.0)
"""Of a class of one's own, whose prompts nobody knows."""


@dataclass(frozen=True, slots=True)
class Range:
    """At least, likely, at most."""

    low: float = 0.0
    likely: float = 0.0
    high: float = 0.0

    def __add__(self, other: Range) -> Range:
        return Range(self.low + other.low, self.likely + other.likely, self.high + other.high)

    def times(self, factor: float) -> Range:
        """Each of them, so often."""
        return Range(self.low * factor, self.likely * factor, self.high * factor)


@dataclass(frozen=True, slots=True)
class ModelEstimate:
    """What one model is asked. Tokens by the runtime's rule of thumb, calls if none fails."""

    calls: float = 0.0
    prompt_tokens: Range = Range()
    completion_tokens: Range = Range()
    microdollars: Range = Range()

    def __add__(self, other: ModelEstimate) -> ModelEstimate:
        return ModelEstimate(
            self.calls + other.calls,
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.microdollars + other.microdollars,
        )


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a run or a sweep takes.

    Attributes:
        turns: one an agent and round.
        asked: agents that a model answers surveys and interviews for, each time counted.
        seconds: of all runs, as many at a time as the sweep says.
        assumptions: what the figures rest on, a line each.
    """

    runs: int
    turns: float
    asked: float
    models: dict[str, ModelEstimate]
    seconds: Range
    assumptions: tuple[str, ...] = field(default=())

    @property
    def total(self) -> ModelEstimate:
        """Of all models together."""
        return reduce(ModelEstimate.__add__, self.models.values(), ModelEstimate())

    def to_document(self) -> dict[str, Any]:
        """As plain JSON."""
        return dataclasses.asdict(self) | {"total": dataclasses.asdict(self.total)}


def estimate_spec(spec: RunSpec, ask: Callable[[RunSpec], Installed] = ask_runtime) -> Estimate:
    """The estimate of a spec, with all runs of its sweep. `ask` measures prompts. Raises SpecError."""
    parallel = spec.sweep.parallel if spec.sweep else 1
    specs = [planned.spec for planned in plan_sweep(spec)] if spec.sweep else [spec]
    measured: dict[str, Installed] = {}
    models: dict[str, ModelEstimate] = {}
    seconds, turns, asked = Range(), 0.0, 0.0
    for one in specs:
        key = json.dumps(one.to_document()["population"]["groups"], sort_keys=True)
        if key not in measured:
            measured[key] = ask(one)
        own = {name: estimate_model(one, name, calls, measured[key]) for name, calls in plan_calls(one).items()}
        answers = plan_asked(one)
        asked += sum(each.agents for moment in answers for each in moment)
        seconds += estimate_seconds(one, own) + estimate_asking_seconds(one, answers)
        own = add(own, estimate_asked(one, answers))
        models = add(models, own)
        turns += sum(count_groups(one).values()) * one.rounds
    shared = min(parallel, len(specs))
    # Side by side they share the machine: at most as fast as if each had one, at least as slow as one by one.
    seconds = Range(seconds.low / shared, seconds.likely / shared, seconds.high)
    return Estimate(len(specs), turns, asked, models, seconds, tuple(list_assumptions(spec, measured.values())))


def estimate_model(spec: RunSpec, name: str, calls: ModelCalls, installed: Installed) -> ModelEstimate:
    """What one model is asked in one run."""
    model, rounds = spec.list_models()[name], spec.rounds
    prompt, completion = Range(), Range()
    for group, turns in calls.by_group.items():
        asked = _measure_prompt(installed.prompts.get(group), rounds)
        # A class of one's own may answer in any way.
        reasoned = SCRIPTED_TOKENS if model.provider == "scripted" else REASONING_TOKENS
        answer = _bound(NUMBER_TOKENS if installed.answers.get(group) == "number" else reasoned, model)
        prompt += asked.times(turns * rounds)
        if model.two_call:
            free = _bound(reasoned, model)
            prompt += (free + Range(*EXTRACTION_TOKENS)).times(turns * rounds)
            answer = free + _bound(NUMBER_TOKENS, model)
        completion += answer.times(turns * rounds)
    return ModelEstimate(calls.a_round * rounds, prompt, completion, _price(model, prompt, completion))


def estimate_asked(spec: RunSpec, moments: Iterable[Iterable[AskedModel]]) -> dict[str, ModelEstimate]:
    """What surveys and interviews of one run ask of its models."""
    found: dict[str, ModelEstimate] = {}
    for one in (each for moment in moments for each in moment):
        model = spec.list_models()[one.model]
        texts = SCRIPTED_TOKENS if model.provider == "scripted" else TEXT_TOKENS
        answer = _bound(texts, model).times(one.texts) + _bound(VALUE_TOKENS, model).times(one.values)
        prompt = Range(*(one.prompt_tokens * factor for factor in PROMPT_BOUNDS)).times(one.agents)
        completion = answer.times(one.agents)
        asked = ModelEstimate(one.agents, prompt, completion, _price(model, prompt, completion))
        found = add(found, {one.model: asked})
    return found


def estimate_asking_seconds(spec: RunSpec, moments: Iterable[Sequence[AskedModel]]) -> Range:
    """Moment by moment, the models of one side by side; an agent waits no longer than its timeout."""
    total = Range()
    for moment in moments:
        bounds = []
        for bound in ("low", "likely", "high"):
            asked = [
                (spec.list_models()[one.model], ModelCalls({"": one.agents}, 1), one.prompt_tokens * one.agents)
                for one in moment
            ]
            bounds.append(min(moment[0].timeout_s, estimate_round_s(asked, 0, bound)))
        total += Range(*bounds)
    return total


def add(some: Mapping[str, ModelEstimate], others: Mapping[str, ModelEstimate]) -> dict[str, ModelEstimate]:
    """By model."""
    names = dict.fromkeys((*some, *others))
    return {name: some.get(name, ModelEstimate()) + others.get(name, ModelEstimate()) for name in names}


def estimate_seconds(spec: RunSpec, models: dict[str, ModelEstimate]) -> Range:
    """Of one run: its start, and its rounds, which end at their deadline at the latest."""
    rounds, total = spec.rounds, Range(*START_S)
    calls = plan_calls(spec)
    agents = sum(count_groups(spec).values())
    a_round = [
        min(
            math.inf if spec.deadline_s is None else spec.deadline_s,
            estimate_round_s(
                [
                    (spec.list_models()[name], one, getattr(models[name].prompt_tokens, bound) / rounds)
                    for name, one in calls.items()
                ],
                agents,
                bound,
            ),
        )
        for bound in ("low", "likely", "high")
    ]
    return total + Range(*a_round).times(rounds)


def list_assumptions(spec: RunSpec, measured: Iterable[Installed]) -> Iterable[str]:
    """What an estimate rests on."""
    asking = plan_calls(spec)
    if not asking:
        yield "no group asks a model"
    else:
        yield "tokens by the rule of thumb of the runtime (3 characters, or 2 bytes of other scripts, are one token)"
        yield (
            f"an answer has {NUMBER_TOKENS[0]:g} to {NUMBER_TOKENS[2]:g} tokens if it is a number, with reasons "
            f"{REASONING_TOKENS[0]:g} to max_tokens, likely {REASONING_TOKENS[1]:g} "
            f"(of a scripted model {SCRIPTED_TOKENS[1]:g})"
        )
        yield "no call fails or is repaired, and no answer comes from a cache; each that is adds a call"
    if spec.surveys or spec.interviews:
        yield (
            f"surveys and interviews are one call an agent and time; it remembers {MEMORY_TOKENS} tokens a round, and "
            f"answers in words with {TEXT_TOKENS[0]:g} to {TEXT_TOKENS[2]:g} tokens, likely {TEXT_TOKENS[1]:g}"
        )
    for name, needed_s in list_late(spec):
        deadline = f"rounds end at their deadline of {spec.deadline_s:g} s"
        yield f"{deadline}; a round of {name} takes about {needed_s:,.3g} s"
    if asking and any(spec.list_models()[name].provider != "scripted" for name in asking):
        yield "a model answers within 0.5 to 20 s, likely 3 s: measure yours, and limits of rate are kept exactly"
    if unmeasured := list_unmeasured(spec):
        yield f"of own classes ({', '.join(unmeasured)}) one call a turn, and 50 to 2,000 tokens of prompt, likely 400"
    if spec.experiment is not None and spec.experiment.clock is not None:
        told = "nobody knows how often agents wake by their clock: one turn an agent and round is assumed"
        yield f"{told}, and one call a turn"
    yield from dict.fromkeys(one.note for one in measured if one.note)


def _measure_prompt(measured: tuple[float, float] | None, rounds: int) -> Range:
    if measured is None:
        return Range(*UNKNOWN_PROMPT_TOKENS)
    likely = (measured[0] + measured[1] * (rounds - 1)) / rounds
    return Range(*(likely * factor for factor in PROMPT_BOUNDS))


def _price(model: ModelSpec, prompt: Range, completion: Range) -> Range:
    price = model.price
    return prompt.times(price.prompt / MICRODOLLARS) + completion.times(price.completion / MICRODOLLARS)


def _bound(tokens: tuple[float, float, float], model: ModelSpec) -> Range:
    return Range(*(min(float(model.max_tokens), bound) for bound in tokens))
