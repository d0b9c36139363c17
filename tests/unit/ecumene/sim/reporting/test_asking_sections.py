"""Answers are counted by moment, with those who gave none; whatever they hold is text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ecumene.client.records import SURVEYS
from ecumene.sim.recordings import open_recording
from ecumene.sim.reporting.asking_sections import QUOTES_MAX, make_asking_sections
from ecumene.sim.reporting.page import PageSection

from tests.unit.ecumene.sim.conftest import write_rows

SPEC = {
    "surveys": [
        {
            "name": "mood",
            "questions": [
                {
                    "name": "pleased",
                    "type": "scale",
                    "minimum": 1,
                    "maximum": 3,
                    "ends": ["no", "much"],
                    "text": "How?",
                },
                {"name": "fair", "type": "choice", "choices": ["yes", "no", "maybe"], "text": "Fair?"},
                {"name": "why", "type": "text", "text": "Why?"},
            ],
        }
    ],
    "interviews": [{"name": "reasons", "questions": ["How did you choose?"]}],
}


def make_row(agent: str, question: str, answer: object, **changed: Any) -> dict[str, Any]:
    """A row of SURVEYS; without an answer it is of an agent that decides by a rule."""
    number = float(answer) if isinstance(answer, int | float) else None
    told = {"answer_text": None if answer is None else str(answer), "answer_number": number}
    base = {"run": "r", "kind": "survey", "survey": "mood", "moment": "after_round", "round": 1, "group": "g"}
    status = {"status": "unsupported", "reason": "decides by a rule"} if answer is None else {"status": "ok"}
    costs = {"prompt_tokens": 0, "completion_tokens": 0, "latency_ms": 1.0}
    kind = {"type": {"pleased": "scale", "fair": "choice"}.get(question, "text")}
    return base | costs | kind | told | status | {"agent": agent, "question": question} | changed


def read(directory: Path, rows: list[dict[str, Any]], spec: dict[str, Any] | None = None) -> list[PageSection]:
    """The sections of recorded answers."""
    write_rows(directory, SURVEYS, rows)
    with open_recording([directory]) as recording:
        return make_asking_sections(recording, SPEC if spec is None else spec)


def test_scales_and_choices_are_stacked_in_the_order_of_their_answers_by_moment(tmp_path: Path) -> None:
    rows = [make_row(f"a{place}", "pleased", place % 2 + 2) for place in range(5)]
    rows += [make_row("a1", "pleased", 1, round=10), make_row("a2", "pleased", 3, moment="before", round=None)]
    rows += [make_row("a9", "pleased", None), make_row("a1", "fair", "maybe", moment="after", round=None)]
    (section,) = read(tmp_path, rows)
    pleased, fair = section.stacks
    assert pleased.caption == "How? 1 = no, 3 = much (mood: pleased)"
    assert list(pleased.answers) == ["1", "2", "3"]
    assert [line[0] for line in pleased.lines] == ["before round 1", "after round 1", "after round 10"]
    assert pleased.lines[1][1:] == ("n 5 of 6", [0, 3, 2])
    assert list(fair.answers) == ["yes", "no", "maybe"]
    assert (fair.is_ordered, fair.lines) == (False, [("after the last round", "n 1 of 1", [0, 0, 1])])
    numbers = next(table for table in section.tables if "numbers" in table.caption)
    assert ["mood", "pleased", "after round 1", "all", "5 of 6", "2.40", "0.548", "2.00"] in numbers.rows
    failures = next(table for table in section.tables if "no answer" in table.caption)
    assert failures.rows == [["mood", "decide by a rule", "decides by a rule", "1"]]


def test_groups_are_told_apart_where_several_answer(tmp_path: Path) -> None:
    rows = [make_row(f"a{place}", "pleased", 1 + place, group=name) for place, name in enumerate(("x", "y"))]
    (section,) = read(tmp_path, rows)
    assert [row[3] for row in section.tables[0].rows] == ["all", "x", "y"]


def test_texts_are_quoted_up_to_a_number_of_them(tmp_path: Path) -> None:
    rows = [make_row(f"a{place:03}", "why", f"<b>{place}</b> 東京") for place in range(QUOTES_MAX + 5)]
    (section,) = read(tmp_path, rows)
    (quotes,) = section.tables
    assert len(quotes.rows) == QUOTES_MAX
    assert quotes.is_folded
    assert "the first 60 answers" in quotes.caption
    assert quotes.rows[0] == ["after round 1", "a000", "g", "<b>0</b> 東京"]


def test_interviews_are_quoted_with_their_questions(tmp_path: Path) -> None:
    asked = {"kind": "interview", "survey": "reasons", "type": "text"}
    rows = [make_row("a1", "q1", "I guessed.", **asked), make_row("a2", "q1", None, **asked)]
    (section,) = read(tmp_path, rows)
    quotes, failures = section.tables
    assert quotes.rows == [["after round 1", "a1", "g", "How did you choose?", "I guessed."]]
    assert failures.rows[0][-1] == "1"


def test_answers_that_a_spec_does_not_tell_of_are_shown_too(tmp_path: Path) -> None:
    (section,) = read(tmp_path, [make_row("a1", "fair", "perhaps"), make_row("a1", "pleased", 9)], {"surveys": None})
    assert section.title == "Survey mood"
    fair, pleased = section.stacks
    assert (fair.caption, list(fair.answers)) == ("fair (mood: fair)", ["perhaps"])
    assert list(pleased.answers) == ["1", "2", "3", "4", "5", "6", "7", "9"]


def test_nothing_asked_is_no_section(tmp_path: Path) -> None:
    with open_recording([tmp_path]) as recording:
        assert make_asking_sections(recording, SPEC) == []
