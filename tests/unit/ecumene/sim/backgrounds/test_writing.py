"""What becomes of the writers' answers: statuses, near-duplicates, failures, and what is kept over all of that."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any, Self

import pyarrow.parquet as pq
import pytest
from ecumene.sim.backgrounds import writing
from ecumene.sim.backgrounds.plans import Job
from ecumene.sim.backgrounds.records import read_about
from ecumene.sim.backgrounds.writing import (
    BackgroundsOutcome,
    BackgroundsUnfinishedError,
    NothingWrittenError,
    write_backgrounds,
)
from ecumene.sim.specs.errors import SpecError
from ecumene.sim.specs.spec import RunSpec

from tests.unit.ecumene.sim.backgrounds.people import make_spec

Answer = Callable[[Job], dict[str, Any]]


class Observer:
    def __init__(self) -> None:
        self.counted: list[tuple[int, int, str]] = []

    def stage_began(self, stage: str) -> None:
        pass

    def texts_counted(self, done: int, total: int, part: str) -> None:
        self.counted.append((done, total, part))


class Pen:
    """Stands for all writers; answers the last job first."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.asked: list[Job] = []

    def __call__(self, spec: RunSpec, planner: Any, jobs: Sequence[Job], folder: Path) -> Self:
        return self

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def write(self, jobs: Sequence[Job]) -> AsyncIterator[tuple[Job, dict[str, Any]]]:
        for job in reversed(jobs):
            self.asked.append(job)
            yield job, self.answer(job)


def say(text: str, missing: Sequence[str] = (), answers: int = 1) -> dict[str, Any]:
    return {"status": "ok", "name": "N", "text": text, "missing": list(missing), "answers": answers, "prompt_tokens": 3}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "b.parquet"


async def write(monkeypatch: pytest.MonkeyPatch, spec: RunSpec, answer: Answer) -> tuple[BackgroundsOutcome, Pen]:
    pen = Pen(answer)
    monkeypatch.setattr(writing, "Writers", pen)
    return await write_backgrounds(spec, Observer()), pen


async def test_everybody_has_a_row_in_order_with_what_was_told(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    answers = {
        "agent-000001": say("one two three four"),
        "agent-000002": say("five six seven eight", answers=2),
        "agent-000003": say("nine ten eleven twelve", missing=["age"], answers=2),
        "agent-000004": {"status": "timeout", "reason": "late", "prompt_tokens": 1, "completion_tokens": 1},
    }
    spec = make_spec(4, file=str(file))
    outcome, _ = await write(monkeypatch, spec, lambda job: answers[job.person.agent])
    assert outcome.statuses == {"complete": 1, "repaired": 1, "flagged": 2}
    assert outcome.reasons == {"does not tell age": 1, "no text: late": 1}
    assert (outcome.written, outcome.kept, outcome.prompt_tokens) == (3, 0, 10)
    rows = pq.read_table(file).to_pylist()
    assert [row["agent"] for row in rows] == list(answers)
    assert [row["status"] for row in rows] == ["complete", "repaired", "flagged", "flagged"]
    assert rows[3]["missing"] == ["age", "gender", "city"]
    assert rows[0]["temperature"] is not None
    assert read_about(file)["diversity"]["texts"] == 3


async def test_what_failed_is_asked_again_and_what_is_finished_is_not(
    monkeypatch: pytest.MonkeyPatch, file: Path
) -> None:
    spec = make_spec(3, file=str(file))
    fails = {"agent-000002"}

    def answer(job: Job) -> dict[str, Any]:
        if job.person.agent in fails:
            return {"status": "error", "reason": "down"}
        return say(f"{job.person.agent} lives somewhere else {job.person.place}")

    await write(monkeypatch, spec, answer)
    fails.clear()
    outcome, pen = await write(monkeypatch, spec, answer)
    assert [job.person.agent for job in pen.asked] == ["agent-000002"]
    assert (outcome.kept, outcome.written, outcome.statuses["complete"]) == (2, 1, 3)
    outcome, pen = await write(monkeypatch, spec, answer)
    assert pen.asked == []


async def test_whoever_is_like_another_is_written_anew_until_it_is_not(
    monkeypatch: pytest.MonkeyPatch, file: Path
) -> None:
    spec = make_spec(3, file=str(file), redos=2)

    def answer(job: Job) -> dict[str, Any]:
        is_own = job.person.place == 0 or (job.person.place == 1 and job.tries == 2)
        return say(f"text of {job.person.place} alone" if is_own else "all the same in here")

    outcome, pen = await write(monkeypatch, spec, answer)
    assert outcome.statuses == {"complete": 2, "repaired": 0, "flagged": 1}
    second, third = outcome.backgrounds[1:]
    assert second.status == "complete", "the first of two that are alike stays"
    assert (third.status, third.tries, third.remark) == ("flagged", 3, "too much like agent-000002")
    assert [job.other for job in pen.asked if job.tries > 1] == ["all the same in here"] * 2
    assert outcome.reasons == {"too much like another": 1}


async def test_another_try_that_differs_is_a_repair(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    def answer(job: Job) -> dict[str, Any]:
        return say("all the same in here" if job.tries == 1 else f"quite another life {job.person.place}")

    outcome, _ = await write(monkeypatch, make_spec(2, file=str(file)), answer)
    assert [one.status for one in outcome.backgrounds] == ["complete", "repaired"]
    assert outcome.backgrounds[1].tries == 2


async def test_a_redo_that_fails_leaves_the_text_of_before(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    def answer(job: Job) -> dict[str, Any]:
        return say("all the same in here") if job.tries == 1 else {"status": "error", "reason": "down"}

    outcome, _ = await write(monkeypatch, make_spec(2, file=str(file), redos=1), answer)
    assert outcome.backgrounds[1].background == "all the same in here"
    assert outcome.backgrounds[1].remark == "too much like agent-000001"


async def test_a_bad_answer_is_asked_for_with_another_seed_and_an_outage_is_not(
    monkeypatch: pytest.MonkeyPatch, file: Path
) -> None:
    def answer(job: Job) -> dict[str, Any]:
        if job.person.place == 0 and job.tries == 1:
            return {"status": "truncated", "reason": "cut off"}
        if job.person.place == 1:
            return {"status": "error", "reason": "down"}
        return say(f"here lives {job.person.place} alone")

    outcome, pen = await write(monkeypatch, make_spec(3, file=str(file)), answer)
    assert [(job.person.place, job.tries) for job in pen.asked] == [(2, 1), (1, 1), (0, 1), (0, 2)]
    assert pen.asked[0].seed != pen.asked[-1].seed
    assert [one.status for one in outcome.backgrounds] == ["repaired", "flagged", "complete"]


async def test_the_first_few_are_kept_for_all(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    spec = make_spec(4, file=str(file))
    pen = Pen(lambda job: say(f"here lives {job.person.place} alone"))
    monkeypatch.setattr(writing, "Writers", pen)
    outcome = await write_backgrounds(spec, Observer(), first=2)
    assert [one.agent for one in outcome.backgrounds] == ["agent-000001", "agent-000002"]
    assert outcome.to_document()["file"] is None
    assert not list(file.parent.glob("*.parquet"))
    outcome = await write_backgrounds(spec, Observer())
    assert (outcome.kept, outcome.written, outcome.path) == (2, 2, file)


async def test_a_spent_budget_ends_it_and_keeps_what_is_there(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    spec = make_spec(3, file=str(file))

    def answer(job: Job) -> dict[str, Any]:
        return say(f"the one {job.person.place}") if job.person.place == 2 else {"status": "budget", "reason": "spent"}

    with pytest.raises(BackgroundsUnfinishedError, match="1 of 3 texts are written, then the budget was spent"):
        await write(monkeypatch, spec, answer)
    assert not list(file.parent.glob("*.parquet"))
    _, pen = await write(monkeypatch, spec, lambda job: say(f"here lives {job.person.place}"))
    assert [job.person.place for job in pen.asked] == [1, 0]


async def test_nothing_at_all_is_an_error(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    told = {"status": "error", "reason": "no such host"}
    with pytest.raises(NothingWrittenError, match="none of 2 people has a text: no such host"):
        await write(monkeypatch, make_spec(2, file=str(file)), lambda job: told)
    assert not list(file.parent.glob("*.parquet"))


async def test_without_a_model_the_texts_can_be_looked_at(file: Path) -> None:
    outcome = await write_backgrounds(make_spec(5, file=str(file), mode="template"), Observer())
    assert outcome.statuses == {"complete": 5, "repaired": 0, "flagged": 0}
    assert pq.read_table(file).num_rows == 5
    assert outcome.to_document()["people"] == 5


async def test_a_spec_without_backgrounds_is_told_so() -> None:
    spec = make_spec(2, mode="template")
    bare = spec.model_copy(update={"population": spec.population.model_copy(update={"backgrounds": None})})
    with pytest.raises(SpecError, match=r"population\.backgrounds: is missing"):
        await write_backgrounds(bare, Observer())
