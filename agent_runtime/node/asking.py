"""Interviews and surveys: who is asked, in which words, and what came back of each."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from agent_runtime.agents.cohort import AGENT_ID
from agent_runtime.model.errors import CommandError
from agent_runtime.model.refusals import NodeError, Refusal, refuse_agent, refuse_field, refuse_limit
from agent_runtime.node.agent_rows import Found
from agent_runtime.node.hosting import HostedRun
from agent_runtime.worker.commands import AskAgent

QUESTION_BYTES_MAX = 16 * 1024
TEXT_BYTES_MAX = 4 * 1024
QUESTIONS_MAX = 32
CHOICES_MAX = 100
CHOICE_BYTES_MAX = 200
AGENTS_MAX = 10_000
GRACE_S = 5.0
"""Beyond an answer's own time: the worker ends a question itself."""
QUESTION_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,39}")

Kind = Literal["text", "number", "integer", "boolean", "choice"]
STATUSES = ("ok", "rule", "parse_error", "truncated", "refused", "timeout", "budget", "cancelled", "error", "absent")
"""Of answers; in the order of `AnswerStatus` in the contract, from 1."""


@dataclass(frozen=True, slots=True)
class Question:
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


@dataclass(frozen=True, slots=True)
class Reply:
    """What came of asking one agent. `value`: of a typed question."""

    agent: str
    group: str
    status: str
    text: str = ""
    reason: str = ""
    value: Any = None
    hash_before: str = ""
    hash_after: str = ""


async def interview(hosting: HostedRun, agent: str, question: str, timeout_s: float) -> Reply:
    """Ask one agent anything.

    Raises:
        NodeError: AGENT_NOT_FOUND, LIMIT_EXCEEDED, WORKER_UNAVAILABLE.
    """
    if not question.strip():
        raise refuse_field("question", "is empty")
    if (size := len(question.encode())) > QUESTION_BYTES_MAX:
        raise refuse_limit("question_bytes_max", QUESTION_BYTES_MAX, size)
    return await ask_found(hosting.find_one(agent), question, None, timeout_s)


async def ask_found(found: Found, question: str, schema: dict[str, Any] | None, timeout_s: float) -> Reply:
    """Ask an agent that lives here. Raises NodeError: its worker is not there."""
    group = found.state.part.group
    try:
        told = await found.slot.ask(
            lambda number: AskAgent(
                id=number, agent=found.agent, question=question, answer_schema=schema, timeout_s=timeout_s
            ),
            timeout_s + GRACE_S,
        )
    except CommandError as error:
        return Reply(found.agent, group, "error", reason=str(error))
    except NodeError as error:
        if error.reason is not Refusal.DEADLINE:
            raise
        return Reply(found.agent, group, "timeout", reason=f"no answer within {timeout_s:g} s")
    status = str(told.get("status"))
    return Reply(
        found.agent,
        group,
        status if status in STATUSES else "error",
        str(told.get("text") or ""),
        str(told.get("reason") or ""),
        told.get("value"),
        str(told.get("hash_before") or ""),
        str(told.get("hash_after") or ""),
    )


async def survey(
    hosting: HostedRun, questions: Sequence[Question], agents: Sequence[str], timeout_s: float, asks_max: int
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


def describe_questions(questions: Sequence[Question]) -> tuple[dict[str, Any], str]:
    """The schema of all answers together, and the text that asks for them."""
    schema = {
        "type": "object",
        "properties": {question.name: question.to_schema() for question in questions},
        "required": [question.name for question in questions],
    }
    lines = "\n".join(f"{question.name}: {question.text}" for question in questions)
    return schema, f"Answer these questions, each under its name:\n{lines}"


def check_questions(questions: Sequence[Question]) -> None:
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


def sample_agents(hosting: HostedRun, count: int, seed: int, groups: Sequence[str]) -> list[tuple[int, str, str]]:
    """The agents of smallest priority among those here: (priority, agent, group), ascending.

    A priority follows from the seed, the group and the agent's row, and so lies where the agent lies on any node.

    Raises:
        NodeError: INVALID_FIELD.
    """
    if not 1 <= count <= AGENTS_MAX:
        raise refuse_field("sample.count", f"1 to {AGENTS_MAX:,} are drawn, not {count:,}")
    known = [group.name for group in hosting.launch.groups]
    if stray := set(groups) - set(known):
        raise refuse_field("sample.groups", f"no group is called {min(stray)!r}")
    drawn: list[tuple[int, str, str]] = []
    for state in hosting.parts.values():
        part = state.part
        if (groups and part.group not in groups) or part.end <= part.first:
            continue
        rows = np.arange(part.first, part.end, dtype=np.uint64)
        # The place of the group in the high bits keeps priorities of different agents apart.
        priorities = mix_rows(seed, known.index(part.group), rows)
        # No two are the same, so that their order among themselves is of no matter before the last step.
        smallest = np.argpartition(priorities, count)[:count] if count < len(rows) else np.arange(len(rows))
        ids = hosting.tables[part.group].column(AGENT_ID)
        drawn += [
            (int(priorities[place]), str(ids[part.first + place].as_py()), part.group) for place in smallest.tolist()
        ]
    return sorted(drawn)[:count]


def mix_rows(seed: int, group: int, rows: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """A random 64-bit number for each row of a group: a bijection of (group, row), so that no two are the same."""
    key = int.from_bytes(hashlib.blake2b(f"sample/{seed}".encode(), digest_size=8).digest(), "little")
    state = (rows + np.uint64(group << 44)) ^ np.uint64(key)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))


def dump_values(reply: Reply) -> bytes:
    """The values of a row of a survey, as JSON; empty where there are none."""
    if reply.status != "ok" or not isinstance(reply.value, Mapping):
        return b""
    return json.dumps(dict(reply.value), ensure_ascii=False).encode()


def _check_choices(where: str, question: Question) -> None:
    if question.kind != "choice":
        if question.choices:
            raise refuse_field(f"{where}.choices", "is for choices")
        return
    choices = question.choices
    if not 2 <= len(choices) <= CHOICES_MAX or len(set(choices)) < len(choices) or not all(choices):
        raise refuse_field(f"{where}.choices", f"2 to {CHOICES_MAX} different ones")
    if (size := max(len(choice.encode()) for choice in choices)) > CHOICE_BYTES_MAX:
        raise refuse_limit("choice_bytes_max", CHOICE_BYTES_MAX, size)
