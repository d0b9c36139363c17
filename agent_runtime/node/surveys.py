"""Surveys: typed questions to many agents, each asked as in an interview, with a row for each."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from agent_runtime.model.refusals import NodeError, refuse_agent, refuse_field, refuse_limit
from agent_runtime.node.agent_rows import Found
from agent_runtime.node.hosting import HostedRun
from agent_runtime.node.interviews import Reply, ask_found
from agent_runtime.node.sampling import AGENTS_MAX

TEXT_BYTES_MAX = 4 * 1024
QUESTIONS_MAX = 32
CHOICES_MAX = 100
CHOICE_BYTES_MAX = 200
QUESTION_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,39}")

Kind = Literal["text", "number", "integer", "boolean", "choice"]


@dataclass(frozen=True, slots=True)
class SurveyQuestion:
    """One typed question of a survey."""

    name: str
    text: str
    kind: Kind
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None

    def to_schema(self) -> dict[str, Any]:
        """JSON schema of its answer."""
        if self.kind == "choice":
            return {"enum": list(self.choices)}
        schema: dict[str, Any] = {"type": "string" if self.kind == "text" else self.kind}
        if self.minimum is not None:
            schema["minimum"] = self.minimum
        if self.maximum is not None:
            schema["maximum"] = self.maximum
        return schema


async def survey(
    hosting: HostedRun, questions: Sequence[SurveyQuestion], agents: Sequence[str], timeout_s: float, asks_max: int
) -> AsyncIterator[Reply]:
    """Ask agents typed questions, at most `asks_max` at a time; replies as they come, one an agent in any case."""
    schema, text = describe_questions(questions)
    found = {one.agent: one for one in hosting.find(agents)}
    for agent in agents:
        if agent not in found:
            yield Reply(agent, "", "absent", reason=refuse_agent(hosting.run, agent).message)
    room = asyncio.Semaphore(asks_max)

    async def ask_one(one: Found) -> Reply:
        async with room:
            try:
                return await ask_found(one, text, schema, timeout_s)
            except NodeError as error:
                return Reply(one.agent, one.state.part.group, "error", reason=error.message)

    loop = asyncio.get_running_loop()
    asking = {loop.create_task(ask_one(one), name=f"survey {one.agent}") for one in found.values()}
    try:
        for answered in asyncio.as_completed(asking):
            yield await answered
    finally:
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)


def describe_questions(questions: Sequence[SurveyQuestion]) -> tuple[dict[str, Any], str]:
    """The schema of all answers together, and the text that asks for them."""
    schema = {
        "type": "object",
        "properties": {question.name: question.to_schema() for question in questions},
        "required": [question.name for question in questions],
    }
    lines = "\n".join(f"{question.name}: {question.text}" for question in questions)
    return schema, f"Answer these questions, each under its name:\n{lines}"


def check_questions(questions: Sequence[SurveyQuestion]) -> None:
    """Raises NodeError for what cannot be asked."""
    if not 1 <= len(questions) <= QUESTIONS_MAX:
        raise refuse_field("questions", f"1 to {QUESTIONS_MAX} are asked, not {len(questions)}")
    names = [question.name for question in questions]
    if len(set(names)) < len(names):
        raise refuse_field("questions", "two of them have the same name")
    for number, question in enumerate(questions):
        where = f"questions[{number}]"
        if not QUESTION_NAME.fullmatch(question.name):
            raise refuse_field(f"{where}.name", "is a letter or _, then letters, digits and _; at most 40")
        if not question.text.strip():
            raise refuse_field(f"{where}.text", "is empty")
        if (size := len(question.text.encode())) > TEXT_BYTES_MAX:
            raise refuse_limit("question_text_bytes_max", TEXT_BYTES_MAX, size)
        _check_choices(where, question)
        numeric = question.kind in ("number", "integer")
        if not numeric and (question.minimum is not None or question.maximum is not None):
            raise refuse_field(f"{where}.minimum", "is for numbers")
        if question.minimum is not None and question.maximum is not None and question.minimum > question.maximum:
            raise refuse_field(f"{where}.minimum", "lies above the maximum")


def check_agents_asked(agents: Sequence[str]) -> None:
    """Raises NodeError unless 1 to 10,000 different agents are named."""
    if not 1 <= len(agents) <= AGENTS_MAX:
        raise refuse_field("agents", f"1 to {AGENTS_MAX:,} are asked, not {len(agents):,}")
    if len(set(agents)) < len(agents):
        raise refuse_field("agents", "one of them is named twice")


def dump_values(reply: Reply) -> bytes:
    """The values of a row of a survey, as JSON; empty where there are none."""
    if reply.status != "ok" or not isinstance(reply.value, Mapping):
        return b""
    return json.dumps(dict(reply.value), ensure_ascii=False).encode()


def _check_choices(where: str, question: SurveyQuestion) -> None:
    if question.kind != "choice":
        if question.choices:
            raise refuse_field(f"{where}.choices", "is for choices")
        return
    choices = question.choices
    if not 2 <= len(choices) <= CHOICES_MAX or len(set(choices)) < len(choices) or not all(choices):
        raise refuse_field(f"{where}.choices", f"2 to {CHOICES_MAX} different ones")
    if (size := max(len(choice.encode()) for choice in choices)) > CHOICE_BYTES_MAX:
        raise refuse_limit("choice_bytes_max", CHOICE_BYTES_MAX, size)
