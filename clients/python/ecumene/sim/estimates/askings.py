"""What surveys and interviews ask of each model, beside what is played: calls, tokens, when."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ecumene.sim.asking.plans import Asking, plan_askings
from ecumene.sim.estimates.calls import count_groups, divide_by_model
from ecumene.sim.specs.asking import AfterRounds, InterviewSpec, SurveySpec
from ecumene.sim.specs.spec import RunSpec

CHARS_A_TOKEN = 3
FRAME_TOKENS = 40
"""Of a question beside its text: who the agent is asked to be, and the form of its answer."""
MEMORY_TOKENS = 40
"""Of each round that an agent remembers: its number, and the winning one."""
TEXT_TOKENS = (5.0, 60.0, 1_000.0)
"""Of an answer in words: at least, likely, at most."""
VALUE_TOKENS = (2.0, 5.0, 15.0)
"""Likewise of a number, a yes, a choice."""


@dataclass(frozen=True, slots=True)
class AskedModel:
    """One model at one moment of a survey or interview.

    Attributes:
        agents: who ask it, as many as expected; each in one call.
        prompt_tokens: of one call.
        texts, values: answers in words, and others, of one call.
        timeout_s: after it an agent gives no answer.
    """

    model: str
    agents: float
    prompt_tokens: float
    texts: int
    values: int
    timeout_s: float


def plan_asked(spec: RunSpec) -> list[list[AskedModel]]:
    """All moments at which something is asked, one after the other, each with the models that are asked then.

    Agents that decide by a rule have no opinions, and cost nothing.
    """
    moments = []
    for asking in plan_askings(spec.surveys, spec.interviews):
        for remembered in _list_remembered(asking, spec.rounds):
            asked = list(_ask_once(spec, asking, remembered))
            if asked:
                moments.append(asked)
    return moments


def _ask_once(spec: RunSpec, asking: Asking, remembered: int) -> Iterator[AskedModel]:
    texts = sum(kind == "text" for kind in asking.types)
    told = sum(len(question.text) + sum(map(len, question.choices)) for question in asking.questions)
    tokens = FRAME_TOKENS + told / CHARS_A_TOKEN + MEMORY_TOKENS * remembered
    groups = {group.name: group for group in spec.population.groups}
    for name, agents in _choose(spec, asking).items():
        persona = len(groups[name].persona) / CHARS_A_TOKEN
        for model, count in divide_by_model(spec, groups[name], agents):
            timeout_s = asking.spec.timeout_s
            yield AskedModel(model, count, tokens + persona, texts, len(asking.types) - texts, timeout_s)


def _choose(spec: RunSpec, asking: Asking) -> Mapping[str, float]:
    """Group -> its agents that are asked, as many as expected."""
    sizes = count_groups(spec)
    wanted = {name: size for name, size in sizes.items() if not asking.spec.groups or name in asking.spec.groups}
    total = sum(wanted.values())
    if isinstance(asking.spec, InterviewSpec):
        if asking.spec.agents:
            share = len(asking.spec.agents) / (sum(sizes.values()) or 1)
            return {name: size * share for name, size in sizes.items()}
        return {name: min(float(asking.spec.per_group or 0), size) for name, size in wanted.items()}
    assert isinstance(asking.spec, SurveySpec)
    share = 1.0 if asking.spec.sample is None else min(1.0, asking.spec.sample / (total or 1))
    return {name: size * share for name, size in wanted.items()}


def _list_remembered(asking: Asking, rounds: int) -> list[int]:
    """For each moment at which it takes place, the rounds that are over then."""
    at = asking.spec.at
    if isinstance(at, AfterRounds):
        return [number for number in at.after_rounds if number <= rounds]
    return {"before": [0], "after": [rounds]}.get(at, list(range(1, rounds + 1)))
