"""The parameters of a group of prompted agents, as a launch description gives them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from agent_runtime.agents.agent import GroupInfo
from agent_runtime.agents.answer_types import make_answer_type
from agent_runtime.agents.calendars import Calendar, ClockTime
from agent_runtime.agents.memory import MEMORY_TOKENS_MAX
from agent_runtime.agents.scene_templates import SceneTemplate, load_scene_template
from agent_runtime.agents.tool_sources import ToolSource

PROMPT_DEFAULT = "resident-1"
_PARSED_MAX = 64


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)


class Observation(_Frozen):
    """Something that an agent looks at before it decides: an entry, the end of a stream, aggregates, or the result of
    an operation that only reads. `{agent}` stands for the agent's id.

    Attributes:
        title: what it is called in the prompt; empty = its place.
        last: items of a stream.
    """

    path: str
    title: str = ""
    key: str = ""
    stream: str = ""
    last: Annotated[int, Field(ge=1, le=200)] = 10
    operation: str = ""
    arguments: Mapping[str, Any] = {}
    aggregates: bool = False

    @model_validator(mode="after")
    def _check(self) -> Self:
        asked = [bool(self.key), bool(self.stream), bool(self.operation), self.aggregates]
        if sum(asked) != 1:
            raise ValueError("an observation is of one thing: key, stream, operation or aggregates")
        return self


class AnswerField(_Frozen):
    """A field of a typed answer."""

    type: Literal["string", "number", "integer", "boolean"]
    description: str = ""
    enum: tuple[Any, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    max_length: Annotated[int, Field(ge=1)] | None = None

    def describe(self) -> dict[str, Any]:
        """As a JSON schema."""
        named = {"maxLength" if name == "max_length" else name: value for name, value in self}
        return {name: value for name, value in named.items() if value not in (None, (), "")}


class AnswerPlace(_Frozen):
    """Where an answer is written; `{agent}` stands for the agent's id."""

    path: str
    key: str = "{agent}"


class Fallback(_Frozen):
    """What an agent does when its model does not decide: an answer, an operation, or nothing (`{"nothing": true}`)."""

    answer: Mapping[str, Any] | None = None
    path: str = ""
    operation: str = ""
    arguments: Mapping[str, Any] = {}
    nothing: bool = False

    @model_validator(mode="after")
    def _check(self) -> Self:
        if sum((self.answer is not None, bool(self.operation), self.nothing)) != 1:
            raise ValueError("a fallback is one of answer, operation and nothing")
        if bool(self.operation) != bool(self.path):
            raise ValueError("an operation needs its path")
        return self


class PromptedSettings(_Frozen):
    """All of a group's parameters.

    Attributes:
        prompt: an installed template's name or a template, see `scene_templates`.
        values: what the template's own names stand for.
        observe: what an agent looks at in each turn.
        tools: what its model may call.
        answer: fields of a typed answer; empty = free text.
        answer_to: where an answer is written; None = reported to what the event asks for, if it asks.
        fallback: None = the turn ends with the failure's status.
        ignore_own: not to be woken by what the agent itself did.
        calendar: which date and hour the clock's 0 is, so that prompts tell the time as people do.
        wake_daily: times of the day, of the calendar's zone, at which an agent wakes; from its first turn on.
        wake_every_s: or how often, by the clock.
        turns_max: later turns pass without a question; None = no bound.
        prompt_tokens_max: of one question, by the rule of `llm.tokens`, tools and history included.
        condense: let the model condense the memory when it is nearly full; else a rule does.
    """

    prompt: str | Mapping[str, Any] = PROMPT_DEFAULT
    values: Mapping[str, str] = {}
    observe: tuple[Observation, ...] = ()
    tools: tuple[ToolSource, ...] = ()
    answer: Mapping[str, AnswerField] = {}
    answer_to: AnswerPlace | None = None
    fallback: Fallback | None = None
    ignore_own: bool = True
    calendar: Calendar | None = None
    wake_daily: Annotated[tuple[ClockTime, ...], Field(max_length=48)] = ()
    wake_every_s: Annotated[float, Field(ge=1e-3, le=1e9)] | None = None
    turns_max: Annotated[int, Field(ge=1)] | None = None
    tool_rounds_max: Annotated[int, Field(ge=1, le=20)] = 4
    prompt_tokens_max: Annotated[int, Field(ge=300)] = 4_000
    memory_tokens_max: Annotated[int, Field(ge=100)] = MEMORY_TOKENS_MAX
    condense: bool = False

    @model_validator(mode="after")
    def _check(self) -> Self:
        if missing := load_scene_template(self.prompt).find_values() - self.values.keys():
            raise ValueError(f"the prompt needs values for {', '.join(sorted(missing))}")
        if self.wake_daily and (self.calendar is None or self.wake_every_s is not None):
            raise ValueError("wake_daily needs a calendar, and excludes wake_every_s")
        answer_type = make_answer(self.answer)
        if self.answer_to is not None and answer_type is None:
            raise ValueError("answer_to needs answer: the fields of the answer")
        if self.fallback is not None and self.fallback.answer is not None:
            if answer_type is None:
                raise ValueError("fallback.answer needs answer: the fields of the answer")
            answer_type.model_validate(dict(self.fallback.answer))
            if unknown := self.fallback.answer.keys() - self.answer.keys():
                raise ValueError(f"fallback.answer has fields that answer lacks: {', '.join(sorted(unknown))}")
        return self

    def find_next_wake(self, now_ns: int) -> int | None:
        """When an agent that is awake at a time wakes next; None = not by itself."""
        if self.calendar is not None and self.wake_daily:
            return self.calendar.find_next(now_ns, self.wake_daily)
        return None if self.wake_every_s is None else now_ns + round(self.wake_every_s * 1e9)


class Prompted:
    """What the agents of one group share, made of its parameters."""

    def __init__(self, settings: PromptedSettings) -> None:
        self.settings = settings
        self.template: SceneTemplate = load_scene_template(settings.prompt)
        self.answer_type = make_answer(settings.answer)
        self.rules = self.template.fill("rules", settings.values)


_parsed: dict[int, tuple[GroupInfo, Prompted]] = {}


def read_prompted(group: GroupInfo) -> Prompted:
    """What the agents of a group share; read once. Raises ValueError, in one line."""
    known = _parsed.get(id(group))
    if known is not None and known[0] is group:
        return known[1]
    try:
        made = Prompted(PromptedSettings.model_validate(dict(group.parameters)))
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        message = first["msg"].removeprefix("Value error, ")
        raise ValueError(f"{where}: {message}" if where else message) from error
    if len(_parsed) >= _PARSED_MAX:
        _parsed.clear()
    _parsed[id(group)] = group, made
    return made


def make_answer(fields: Mapping[str, AnswerField]) -> type[BaseModel] | None:
    """The type of an answer of these fields; None of none. Raises AnswerSchemaError."""
    if not fields:
        return None
    properties = {name: field.describe() for name, field in fields.items()}
    return make_answer_type({"type": "object", "properties": properties})
