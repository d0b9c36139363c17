"""An agent that asks its model many questions in one turn: what a model gives, and the gateway before it, at most.

It is woken by an entry that says how much, and writes beside it what came of it:

    /place  ask    {"number": 3, "first": 0, "questions": 1000, "at_a_time": 64}
    /place  asked  {"number": 3, "answered": 1000, "failed": 0, "prompt_tokens": …, "completion_tokens": …, "wall_s": …}

For benchmarks; everything on the way of a question is as in any other turn.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agent_runtime.agents.agent import Agent, GroupInfo
from agent_runtime.agents.answer_types import make_answer_type
from agent_runtime.llm import Message, ModelError, ModelTruncatedError

if TYPE_CHECKING:
    from ecumene.client import Event, Json

    from agent_runtime.turns.turn import Turn

ASKED = "asked"
NUMBER = "{number}"
QUESTIONS_MAX = 32_767
"""As many as the records can number in one turn."""


class LoadSettings(BaseModel):
    """A group's parameters.

    Attributes:
        rules: told first, the same in every question.
        question: told last; `{number}` in it stands for the question's own number.
        answer: JSON schema of the answers; None = free text.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    rules: str
    question: str
    answer: Mapping[str, Any] | None = None


def read_settings(group: GroupInfo) -> LoadSettings:
    """The parameters of a group. Raises ValueError, in one line."""
    try:
        return LoadSettings.model_validate(dict(group.parameters))
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error


class QuestionBatch(BaseModel):
    """How much to ask: so many questions, numbered from `first`, so many of them at a time."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    number: int
    first: Annotated[int, Field(ge=0)] = 0
    questions: Annotated[int, Field(ge=1, le=QUESTIONS_MAX)]
    at_a_time: Annotated[int, Field(ge=1)]


@dataclass(slots=True)
class Sums:
    """What came of all questions."""

    answered: int = 0
    failed: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0

    def add(self, prompt_tokens: int, completion_tokens: int) -> None:
        """One more answer."""
        self.answered += 1
        self.prompt_tokens += prompt_tokens
        self.completion_tokens += completion_tokens


class LoadAsker(Agent):
    """See the module; parameters: see LoadSettings."""

    def __init__(self, agent_id: str, profile: Mapping[str, Any], group: GroupInfo) -> None:
        super().__init__(agent_id, profile, group)
        settings = read_settings(group)
        self._rules = Message("system", settings.rules)
        self._question = settings.question
        self.answer_type = None if settings.answer is None else make_answer_type(settings.answer)

    @classmethod
    def check_group(cls, group: GroupInfo) -> None:
        settings = read_settings(group)
        if settings.answer is not None:
            make_answer_type(settings.answer)

    async def on_event(self, event: Event, turn: Turn) -> None:
        batch = QuestionBatch.model_validate(event.value)
        numbers, sums = iter(range(batch.first, batch.first + batch.questions)), Sums()
        start_s = time.perf_counter()
        async with asyncio.TaskGroup() as asking:
            for place in range(min(batch.at_a_time, batch.questions)):
                asking.create_task(self._ask_each(turn, numbers, sums), name=f"{self.id} asks {place}")
        told: dict[str, Json] = {
            "number": batch.number,
            "answered": sums.answered,
            "failed": sums.failed,
            "prompt_tokens": sums.prompt_tokens,
            "completion_tokens": sums.completion_tokens,
            "wall_s": time.perf_counter() - start_s,
        }
        turn.act(ASKED, event.path, ASKED, told)

    def build_messages(self, number: int) -> tuple[Message, ...]:
        """What the question of a number says."""
        return self._rules, Message("user", self._question.replace(NUMBER, str(number)))

    async def _ask_each(self, turn: Turn, numbers: Iterator[int], sums: Sums) -> None:
        for number in numbers:
            try:
                build = partial(self.build_messages, number)
                answer = await turn.llm.ask(build, answer_type=self.answer_type)
            except ModelTruncatedError as cut:
                # Cut off at its bound, it was written all the same.
                sums.add(cut.prompt_tokens, cut.completion_tokens)
            except ModelError:
                sums.failed += 1
            else:
                sums.add(answer.prompt_tokens, answer.completion_tokens)
