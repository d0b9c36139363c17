"""Asks what stands at a moment of a run, and records each answer once, however often the run is gone on with.

    round over ──► who is to be asked ─ who was ──► their node: a copy of each agent answers ──► part files

Agents are asked in copies of their state: what they say changes neither them nor the world, so that a run is the same
run with its surveys and without. A model is asked through the same limits and budgets as in turns. What is to be
remembered they are told once all of it is recorded, each once, and a note of that stands in the world.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from pathlib import Path

from ecumene.client.model import Json
from ecumene.client.reasons import EntryNotFoundError
from ecumene.client.runtime_model import AnswerStatus, Intervention
from ecumene.client.runtime_nodes import RuntimeNode
from ecumene.launch.asking import survey_agents
from ecumene.sim.asking.lives import ACTOR, RunLife, count_agents
from ecumene.sim.asking.plans import Asking, Moment
from ecumene.sim.asking.reaching import reach_agents
from ecumene.sim.asking.recording import UNSUPPORTED, SurveyRecorder, list_asked, read_answers

AGENTS_AT_A_TIME = 10_000
ASKED = {"survey": "survey", "interview": "interviews"}
NOTE_PREFIX = "asked."
REMEMBERED = "You were asked: "
"""What is remembered begins so, and prompted players find it in their later prompts."""
QUESTION_CHARS_MAX, ANSWER_CHARS_MAX = 120, 200
REMEMBERED_BYTES_MAX = 1_900


class Asker:
    """For one life of a run."""

    def __init__(self, life: RunLife, askings: Sequence[Asking]) -> None:
        self._life = life
        self._askings = askings

    async def ask(self, moment: Moment) -> None:
        """Ask all that stands at a moment, and has not been asked. Every agent that is asked has its rows.

        Raises:
            EcumeneError: no node hosts the run, or a node or the world cannot be reached.
            OSError: the disk.
        """
        due = [asking for asking in self._askings if asking.takes_place(moment)]
        if not due:
            return
        done = list_asked(self._life.directory)
        for asking in due:
            agents = asking.choose_agents(self._life.population, self._life.seed, moment)
            left = [one for one in agents if (asking.name, moment.when, moment.round, one) not in done]
            if left:
                await self._ask(asking, moment, left)
            if asking.spec.remembered:
                await self._remind(asking, moment)

    async def _remind(self, asking: Asking, moment: Moment) -> None:
        """Let all remember what they have answered, unless they do."""
        notes = self._life.notes
        key = f"{NOTE_PREFIX}{asking.name}.{moment.when}.{moment.round or 0}"
        try:
            await notes.get(key)
        except EntryNotFoundError:
            texts = await asyncio.to_thread(write_memories, self._life.directory, asking, moment)

            def tell(node: RuntimeNode, agent: str) -> Awaitable[Intervention]:
                return node.tell(self._life.run, agent, texts[agent], actor=ACTOR, comment=asking.name)

            await reach_agents(self._life.world, self._life.run, texts, tell)
            self._life.tell(f"{ASKED[asking.kind]} {asking.name}, {moment} is remembered by {count_agents(len(texts))}")
            note: dict[str, Json] = {"kind": ACTOR, "name": asking.name, "moment": str(moment), "agents": len(texts)}
            await notes.create(key, note, if_absent=True, actor=ACTOR)

    async def _ask(self, asking: Asking, moment: Moment, agents: Sequence[str]) -> None:
        what = f"{ASKED[asking.kind]} {asking.name}, {moment}"
        self._life.tell(f"{what}: asking {count_agents(len(agents))}")
        statuses: Counter[str] = Counter()
        async with SurveyRecorder(self._life.directory, run=self._life.run) as recorder:
            for some in _cut(agents, AGENTS_AT_A_TIME):
                rows = survey_agents(
                    self._life.world, self._life.run, asking.questions, some, timeout_s=asking.spec.timeout_s
                )
                async for row in rows:
                    recorder.add(asking, moment, row)
                    statuses[UNSUPPORTED if row.status is AnswerStatus.RULE else row.status.name.lower()] += 1
        self._life.tell(f"{what}: {describe_answers(statuses)}")


def describe_answers(statuses: Counter[str]) -> str:
    """How many answered, and what became of the others."""
    answered, total = statuses["ok"], statuses.total()
    rest = [f"{count:,} {status}" for status, count in sorted(statuses.items()) if status != "ok"]
    return f"{answered:,} of {count_agents(total)} answered" + (f"; {', '.join(rest)}" if rest else "")


def write_memories(directory: Path, asking: Asking, moment: Moment) -> Mapping[str, str]:
    """What each agent that has answered is to remember: each question with its answer, from the recorded rows."""
    columns = ("survey", "moment", "round", "agent", "question", "answer_text", "status")
    answers: dict[str, dict[str, str]] = {}
    wanted = {"survey": asking.name, "moment": moment.when, "round": moment.round, "status": "ok"}
    for row in read_answers(directory, columns).to_pylist():
        if wanted.items() <= row.items():
            answers.setdefault(row["agent"], {})[row["question"]] = row["answer_text"] or ""
    return {agent: write_memory(asking, given) for agent, given in sorted(answers.items())}


def write_memory(asking: Asking, answers: Mapping[str, str]) -> str:
    """Questions and answers of one agent, at most so many bytes as an agent is told at once."""
    told = []
    for question in asking.questions:
        if question.name in answers:
            answer = shorten(answers[question.name], ANSWER_CHARS_MAX)
            told.append(f"{shorten(question.text, QUESTION_CHARS_MAX)} You answered: {answer}")
    return (REMEMBERED + "\n".join(told)).encode()[:REMEMBERED_BYTES_MAX].decode("utf-8", "ignore")


def shorten(text: str, chars_max: int) -> str:
    """As one line, cut at its end."""
    line = " ".join(text.split())
    return line if len(line) <= chars_max else line[: chars_max - 1] + "…"


def _cut(agents: Sequence[str], count: int) -> Iterator[Sequence[str]]:
    for start in range(0, len(agents), count):
        yield agents[start : start + count]
