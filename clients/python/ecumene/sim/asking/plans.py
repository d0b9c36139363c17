"""What is asked at which moments, and of whom: it follows from the spec and the seed, whenever it is worked out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Literal

import numpy as np

from ecumene.client.runtime_model import QuestionType, SurveyQuestion
from ecumene.sim.populations.population import Population
from ecumene.sim.populations.streams import mix
from ecumene.sim.specs.asking import AfterRounds, AskingSpec, InterviewSpec, QuestionSpec, SurveySpec

STREAM = "population"
"""Of its numbers; each purpose has a seed of its own."""
When = Literal["before", "after_round", "after"]


@dataclass(frozen=True, slots=True)
class Moment:
    """When nobody plays. `round`: of `after_round`, the run's own number of the round that is over."""

    when: When
    round: int | None = None

    def __str__(self) -> str:
        if self.when == "after_round":
            return f"after round {self.round}"
        return "before the first round" if self.when == "before" else "after the last round"


BEFORE, AFTER = Moment("before"), Moment("after")


@dataclass(frozen=True, slots=True)
class Asking:
    """One survey, or the interviews of one name: `kind` is `survey` or `interview`."""

    kind: str
    spec: AskingSpec
    questions: tuple[SurveyQuestion, ...]
    types: tuple[str, ...]
    """Of the questions, as a spec calls them."""

    @property
    def name(self) -> str:
        """Of the survey or interview."""
        return self.spec.name

    def takes_place(self, moment: Moment) -> bool:
        """Whether it is asked then."""
        at = self.spec.at
        if isinstance(at, AfterRounds):
            return moment.when == "after_round" and moment.round in at.after_rounds
        return at == moment.when or (at == "every_round" and moment.when == "after_round")

    def choose_agents(self, population: Population, seed: int, moment: Moment) -> list[str]:
        """Whom it asks, in the order of the population: the same for a seed, whatever was asked before."""
        spec = self.spec
        if isinstance(spec, InterviewSpec) and spec.agents:
            return list(spec.agents)
        purpose = f"{self.kind}/{self.name}"
        if isinstance(spec, InterviewSpec):
            names = spec.groups or [group.name for group in population.groups]
            drawn = [choose_rows(population, [name], spec.per_group, seed, purpose) for name in names]
            rows = np.sort(np.concatenate(drawn))
        else:
            assert isinstance(spec, SurveySpec)
            draw = f"/{moment.when}/{moment.round}" if spec.panel == "fresh" else ""
            rows = choose_rows(population, spec.groups, spec.sample, seed, purpose + draw)
        chosen: list[str] = population.name_rows(rows).to_pylist()
        return chosen


def plan_askings(surveys: Iterable[SurveySpec], interviews: Iterable[InterviewSpec]) -> list[Asking]:
    """All that a spec asks, in its order, surveys first."""
    asked = [Asking("survey", one, *_type(one.questions)) for one in surveys]
    for interview in interviews:
        questions = [QuestionSpec(name=f"q{n}", text=text) for n, text in enumerate(interview.questions, start=1)]
        asked.append(Asking("interview", interview, *_type(questions)))
    return asked


def describe_question(question: QuestionSpec) -> SurveyQuestion:
    """A question as agents get it: the ends of a scale are told in its text."""
    kind = QuestionType.INTEGER if question.type == "scale" else QuestionType[question.type.upper()]
    text, (low, high) = question.text, question.bounds
    if question.type == "scale":
        ends = zip(question.bounds, question.ends or ("", ""), strict=True)
        told = [f"{end:g}" + (f" = {meaning}" if meaning else "") for end, meaning in ends]
        text = f"{text} (a whole number from {told[0]} to {told[1]})"
    return SurveyQuestion(question.name, text, kind, question.choices, low, high)


def _type(questions: Sequence[QuestionSpec]) -> tuple[tuple[SurveyQuestion, ...], tuple[str, ...]]:
    return tuple(map(describe_question, questions)), tuple(question.type for question in questions)


def choose_rows(
    population: Population, groups: Sequence[str], count: int | None, seed: int, purpose: str
) -> np.ndarray:
    """The places of some agents, ascending: `count` of those groups, or all; no groups = of the whole population.

    Who is drawn follows from seed and purpose alone, and no draw says anything of another.
    """
    wanted = [place for place, group in enumerate(population.groups) if not groups or group.name in groups]
    rows = np.flatnonzero(np.isin(population.codes, wanted))
    if count is None:
        return rows
    own = int.from_bytes(blake2b(f"{seed}/{purpose}".encode(), digest_size=8).digest(), "little")
    priorities = mix(own, STREAM, rows)
    chosen: np.ndarray = np.sort(rows[np.argsort(priorities, kind="stable")[:count]])
    return chosen
