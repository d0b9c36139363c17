"""What agents are asked within a run, and when: surveys of typed questions, and interviews of open ones."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Discriminator, Field, Tag, model_validator

from ecumene.sim.specs.section import TAG, Section

QUESTIONS_MAX = 32
SCALE = (1, 7)
"""From where to where a scale goes that says nothing else."""
AskingName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,39}$")]


def _check_text(text: str) -> str:
    if not text.strip():
        raise ValueError("is empty")
    if (size := len(text.encode())) > 4096:
        raise ValueError(f"takes {size:,} bytes, at most 4,096 are asked")
    return text


QuestionText = Annotated[str, AfterValidator(_check_text)]
Finite = Annotated[float, Field(allow_inf_nan=False)]


class QuestionSpec(Section):
    """One typed question.

    Attributes:
        name: of the question, in records; letters, digits and `_`.
        text: what is asked.
        type: what the answer is; a `scale` is a whole number between two ends.
        choices: of a choice: two or more.
        minimum, maximum: of a number, an integer or a scale (there 1 and 7 unless given).
        ends: of a scale: what its lowest and its highest number mean.
    """

    name: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,39}$")]
    text: QuestionText
    type: Literal["text", "number", "integer", "boolean", "choice", "scale"] = "text"
    choices: Annotated[tuple[Annotated[str, Field(min_length=1, max_length=50)], ...], Field(max_length=100)] = ()
    minimum: Finite | None = None
    maximum: Finite | None = None
    ends: tuple[str, str] | None = None

    @model_validator(mode="after")
    def _check_type(self) -> Self:
        if (self.type == "choice") != bool(self.choices):
            raise ValueError("choices are for type choice, and needed there")
        if self.choices and len(set(self.choices)) < max(2, len(self.choices)):
            raise ValueError("a choice needs two or more different choices")
        if self.ends is not None and self.type != "scale":
            raise ValueError("ends are for type scale")
        if self.type not in ("number", "integer", "scale") and (self.minimum, self.maximum) != (None, None):
            raise ValueError("minimum and maximum are for numbers")
        low, high = self.bounds
        if low is not None and high is not None and (low > high or (self.type == "scale" and low == high)):
            raise ValueError(f"the minimum, {low:g}, is not below the maximum, {high:g}")
        if self.type in ("scale", "integer") and any(end is not None and end % 1 for end in (low, high)):
            raise ValueError("whole numbers need whole bounds")
        return self

    @property
    def bounds(self) -> tuple[float | None, float | None]:
        """The least and the greatest answer; None = any."""
        if self.type != "scale":
            return self.minimum, self.maximum
        return (
            SCALE[0] if self.minimum is None else self.minimum,
            SCALE[1] if self.maximum is None else self.maximum,
        )


class AfterRounds(Section):
    """After some rounds.

    Attributes:
        after_rounds: the numbers of these rounds, from 1.
    """

    after_rounds: Annotated[tuple[Annotated[int, Field(ge=1, le=1_000)], ...], Field(min_length=1, max_length=1_000)]


def _tag_moment(given: object) -> str:
    return f"{TAG}some" if isinstance(given, dict | AfterRounds) else f"{TAG}named"


At = Annotated[
    Annotated[Literal["before", "after", "every_round"], Tag(f"{TAG}named")]
    | Annotated[AfterRounds, Tag(f"{TAG}some")],
    Discriminator(_tag_moment),
]
"""Before the first round, after the last one, after each one, or after some."""


class AskingSpec(Section):
    """What surveys and interviews have in common.

    Attributes:
        name: of this survey or interview, in records and reports; no two of a run share one.
        at: `before` the first round, `after` the last, `every_round` (after each), or `{after_rounds: [1, 3]}`.
        groups: only agents of these groups of the population; none = of all.
        timeout_s: for the answers of one agent, waiting for the limits of its model included.
        remembered: whether agents remember what they were asked and have answered; the run is another one then.
    """

    name: AskingName
    at: At = "after"
    groups: Annotated[tuple[str, ...], Field(max_length=1_000)] = ()
    timeout_s: Annotated[float, Field(gt=0, le=600)] = 600.0
    remembered: bool = False


class SurveySpec(AskingSpec):
    """Typed questions to all agents, or to a sample of them.

    Attributes:
        questions: what is asked, in one question to the model of each agent.
        sample: how many agents are asked, drawn by the run's seed; none = all.
        panel: whether the `same` agents are asked each time, or a `fresh` sample is drawn.
    """

    questions: Annotated[tuple[QuestionSpec, ...], Field(min_length=1, max_length=QUESTIONS_MAX)]
    sample: Annotated[int, Field(ge=1)] | None = None
    panel: Literal["same", "fresh"] = "same"

    @model_validator(mode="after")
    def _check_questions(self) -> Self:
        names = [question.name for question in self.questions]
        if len(set(names)) < len(names):
            raise ValueError("two questions have the same name")
        if self.panel == "fresh" and self.sample is None:
            raise ValueError("panel fresh needs a sample: all agents are the same ones each time")
        return self


class InterviewSpec(AskingSpec):
    """Open questions to a few agents, whose answers are texts.

    Attributes:
        questions: what is asked, in one question to the model of each agent; in records they are q1, q2 and so on.
        agents: ids such as `agent-000001`; or
        per_group: so many of each group, drawn by the run's seed, the same ones each time.
    """

    questions: Annotated[tuple[QuestionText, ...], Field(min_length=1, max_length=QUESTIONS_MAX)]
    agents: Annotated[tuple[str, ...], Field(max_length=10_000)] = ()
    per_group: Annotated[int, Field(ge=1)] | None = None

    @model_validator(mode="after")
    def _check_whom(self) -> Self:
        if bool(self.agents) == (self.per_group is not None):
            raise ValueError("give either agents or per_group")
        if self.agents and self.groups:
            raise ValueError("groups are for per_group")
        if len(set(self.agents)) < len(self.agents):
            raise ValueError("an agent is named twice")
        return self
