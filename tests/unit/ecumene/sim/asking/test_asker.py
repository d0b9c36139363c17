"""Each agent is asked once at a moment, however often the asking is broken off and gone on with."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from ecumene.client.reasons import EntryNotFoundError
from ecumene.client.runtime_errors import RunNotFoundError
from ecumene.client.runtime_model import AnswerStatus, SurveyQuestion, SurveyRow
from ecumene.client.world import World
from ecumene.sim.asking import asker as asker_module
from ecumene.sim.asking.asker import Asker, write_memory
from ecumene.sim.asking.lives import RunLife
from ecumene.sim.asking.plans import AFTER, BEFORE, Moment, plan_askings
from ecumene.sim.asking.recording import list_asked, read_answers
from ecumene.sim.specs.asking import InterviewSpec, SurveySpec

from tests.unit.ecumene.sim.asking.test_plans import make_population

QUESTIONS = [
    {"name": "mood", "type": "number", "text": "?"},
    {"name": "fair", "type": "boolean", "text": "?"},
    {"name": "wort", "text": "?"},
]
ANSWERS: dict[str, Any] = {"mood": 2.5, "fair": True, "wort": "größer – 数"}


class Agents:
    """Stand in for those of a node; the connection breaks after so many answers."""

    def __init__(self, breaks_after: int | None = None) -> None:
        self.breaks_after = breaks_after
        self.asked: list[str] = []

    async def survey(
        self, _world: World, run: str, questions: Sequence[SurveyQuestion], agents: Sequence[str], *, timeout_s: float
    ) -> AsyncIterator[SurveyRow]:
        assert (run, timeout_s) == ("r", 600.0)
        for agent in agents:
            if len(self.asked) == self.breaks_after:
                raise RunNotFoundError("no node hosts it")
            self.asked.append(agent)
            if agent.endswith("3"):
                yield SurveyRow(agent, "a", AnswerStatus.TIMEOUT, "too slow", {}, "m", 10, 0, 5.0)
            elif agent.endswith("4"):
                yield SurveyRow(agent, "a", AnswerStatus.RULE, "decides by a rule", {})
            else:
                answers = {question.name: ANSWERS.get(question.name, "text") for question in questions}
                yield SurveyRow(agent, "a", AnswerStatus.OK, "", answers, "m", 10, 4, 7.5)


def make(monkeypatch: pytest.MonkeyPatch, directory: Path, agents: Agents, told: list[str]) -> Asker:
    monkeypatch.setattr(asker_module, "survey_agents", agents.survey)
    survey = SurveySpec.model_validate({"name": "s", "at": "every_round", "questions": QUESTIONS})
    interview = InterviewSpec(name="i", at="after", questions=("Why?",), agents=("agent-000002",))
    return Asker(make_life(cast(World, None), directory, told), plan_askings([survey], [interview]))


def make_life(world: World, directory: Path, told: list[str]) -> RunLife:
    return RunLife(world=world, run="r", seed=1, directory=directory, population=make_population(a=6), tell=told.append)


async def test_nobody_who_has_answered_is_asked_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    first, told = Agents(breaks_after=4), list[str]()
    moment = Moment("after_round", 1)
    with pytest.raises(RunNotFoundError):
        await make(monkeypatch, tmp_path, first, told).ask(moment)
    assert {agent for *_, agent in list_asked(tmp_path)} == set(first.asked)
    second = Agents()
    asker = make(monkeypatch, tmp_path, second, told)
    await asker.ask(moment)
    await asker.ask(moment)
    assert sorted(first.asked + second.asked) == [f"agent-{number:06d}" for number in range(1, 7)]
    assert len(read_answers(tmp_path)) == 6 * len(QUESTIONS)
    await asker.ask(Moment("after_round", 2))
    assert len(second.asked) == 2 + 6, "another round is another moment"


async def test_rows_hold_answers_statuses_reasons_and_what_it_cost_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    told: list[str] = []
    asker = make(monkeypatch, tmp_path, Agents(), told)
    await asker.ask(Moment("after_round", 2))
    await asker.ask(AFTER)
    await asker.ask(BEFORE)
    rows = read_answers(tmp_path).to_pylist()
    of_one = {row["question"]: row for row in rows if row["agent"] == "agent-000001"}
    assert [(of_one[name]["answer_text"], of_one[name]["answer_number"]) for name in ("mood", "fair", "wort")] == [
        ("2.5", 2.5),
        ("yes", 1.0),
        ("größer – 数", None),
    ]
    assert sum(row["prompt_tokens"] for row in of_one.values()) == 10
    assert {row["round"] for row in of_one.values()} == {2}
    failed = {(row["agent"], row["status"], row["reason"], row["answer_text"]) for row in rows if row["status"] != "ok"}
    assert failed == {
        ("agent-000003", "timeout", "too slow", None),
        ("agent-000004", "unsupported", "decides by a rule", None),
    }
    (open_one,) = [row for row in rows if row["kind"] == "interview"]
    assert (open_one["survey"], open_one["moment"], open_one["round"], open_one["question"]) == (
        "i",
        "after",
        None,
        "q1",
    )
    assert told[1] == "survey s, after round 2: 4 of 6 agents answered; 1 timeout, 1 unsupported"
    assert told[-1] == "interviews i, after the last round: 1 of 1 agent answered"
    assert not (tmp_path / ".staging").exists()


async def test_a_run_that_asks_nothing_has_no_answers(tmp_path: Path) -> None:
    assert len(read_answers(tmp_path)) == 0 and list_asked(tmp_path) == set()


class Notes:
    """Stand in for a world that keeps notes, and for agents that remember."""

    def __init__(self, breaks_after: int | None = None) -> None:
        self.kept: dict[str, Any] = {}
        self.told: list[tuple[str, str]] = []
        self.breaks_after = breaks_after

    def environment(self, path: str) -> "Notes":
        assert path == "/runtime/runs/r/interventions"
        return self

    async def get(self, key: str) -> Any:
        if key not in self.kept:
            raise EntryNotFoundError(key)
        return self.kept[key]

    async def create(self, key: str, note: Any, **_: Any) -> None:
        self.kept[key] = note

    async def tell(self, _run: str, agent: str, text: str, **_: Any) -> None:
        self.told.append((agent, text))

    async def reach(self, _world: Any, _run: str, agents: Sequence[str], deed: Any) -> None:
        for agent in agents:
            if len(self.told) == self.breaks_after:
                raise RunNotFoundError("no node hosts it")
            await deed(self, agent)


async def test_what_is_remembered_is_told_once_all_of_it_is_recorded_and_noted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    agents, notes, told = Agents(), Notes(breaks_after=2), list[str]()
    monkeypatch.setattr(asker_module, "survey_agents", agents.survey)
    monkeypatch.setattr(asker_module, "reach_agents", notes.reach)
    survey = SurveySpec.model_validate({"name": "s", "at": "every_round", "remembered": True, "questions": QUESTIONS})
    asker = Asker(make_life(cast(World, notes), tmp_path, told), plan_askings([survey], []))
    moment = Moment("after_round", 1)
    with pytest.raises(RunNotFoundError):
        await asker.ask(moment)
    assert len(agents.asked) == 6 and not notes.kept
    notes.breaks_after = None
    await asker.ask(moment)
    await asker.ask(moment)
    assert len(agents.asked) == 6, "nobody is asked again"
    told_at_last = [agent for agent, _ in notes.told[2:]]
    assert told_at_last == [f"agent-{number:06d}" for number in (1, 2, 5, 6)], "all who have answered, and only they"
    note = {"kind": "experiment", "name": "s", "moment": "after round 1", "agents": 4}
    assert notes.kept == {"asked.s.after_round.1": note}
    assert {text for _, text in notes.told} == {
        "You were asked: ? You answered: 2.5\n? You answered: yes\n? You answered: größer – 数"
    }
    assert told[-1] == "survey s, after round 1 is remembered by 4 agents"


def test_a_memory_is_no_longer_than_an_agent_may_be_told() -> None:
    questions = [{"name": f"q{n}", "text": "ü" * 2_000} for n in range(32)]
    (asking,) = plan_askings([SurveySpec.model_validate({"name": "s", "questions": questions})], [])
    text = write_memory(asking, {f"q{n}": "数" * 500 for n in range(32)})
    assert text.startswith("You were asked: ü") and len(text.encode()) <= 1_900
    assert "ü… You answered: 数" in text
