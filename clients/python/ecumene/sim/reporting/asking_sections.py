"""What a page tells of surveys and interviews: how answers divide, how they change over the rounds, who gave none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ecumene.sim.recordings import Recording
from ecumene.sim.reporting.page import PageSection, PageStacks, PageTable, make_table

QUOTES_MAX = 60
SCALE_POINTS_MAX = 11
MOMENTS_MAX = 12
INTERVIEW = "interview"
Row = tuple[Any, ...]
_MOMENT = "CASE moment WHEN 'before' THEN 0 WHEN 'after' THEN 1000000 ELSE coalesce(round, 0) END"


@dataclass(frozen=True, slots=True)
class _Question:
    survey: str
    name: str
    kind: str
    text: str
    answers: Sequence[str]
    """All that could be chosen, in their order; empty where anything could be said."""


def make_asking_sections(recording: Recording, spec: Mapping[str, Any]) -> list[PageSection]:
    """A section for surveys and one for interviews, of what was asked. Raises RecordingError."""
    asked = recording.ask(
        "SELECT survey, question, type, kind FROM surveys GROUP BY ALL ORDER BY kind, survey, question"
    )
    surveys = [_describe_question(spec, *row[:3]) for row in asked if row[3] != INTERVIEW]
    sections = []
    if surveys:
        order = {place: number for number, place in enumerate(_list_places(spec))}
        surveys.sort(key=lambda one: order.get((one.survey, one.name), len(order)))
        sections.append(_make_surveys(recording, surveys))
    if len(surveys) < len(asked):
        sections.append(_make_interviews(recording, spec))
    return sections


def _make_surveys(recording: Recording, questions: Sequence[_Question]) -> PageSection:
    names = list(dict.fromkeys(one.survey for one in questions))
    texts = [
        "Nobody plays while agents are asked, and none remembers it. n is those who answered, of all who were asked; "
        "agents that decide by a rule have no opinions and are among those without an answer."
    ]
    stacks = [found for one in questions if (found := _stack(recording, one)) is not None]
    numbers = [row for one in questions for row in _list_numbers(recording, one)]
    columns = ("survey", "question", "asked", "group", "n", "mean", "std", "median")
    tables = [make_table("Answers as numbers (yes is 1), by moment and group", columns, numbers, texts=4)]
    tables += [table for one in questions if one.kind == "text" for table in _quote(recording, one)]
    tables.append(_list_failures(recording, "survey"))
    return PageSection(
        "Surveys" if len(names) > 1 else f"Survey {names[0]}", texts, stacks=stacks, tables=_drop_empty(tables)
    )


def _make_interviews(recording: Recording, spec: Mapping[str, Any]) -> PageSection:
    texts = {
        (one.get("name"), f"q{number}"): question
        for one in _list(spec, "interviews")
        for number, question in enumerate(_list(one, "questions"), start=1)
    }
    rows = recording.ask(
        "SELECT survey, question, moment, round, agent, coalesce(\"group\", '–'), answer_text FROM surveys "
        f"WHERE kind = $kind AND status = 'ok' ORDER BY survey, {_MOMENT}, question, agent",
        kind=INTERVIEW,
    )
    quoted = [
        (_tell_moment(moment, number), agent, group, texts.get((survey, question), question), answer)
        for survey, question, moment, number, agent, group, answer in rows[:QUOTES_MAX]
    ]
    caption = f"{len(rows):,} answers" + (f", the first {QUOTES_MAX} of them" if len(rows) > QUOTES_MAX else "")
    table = make_table(caption, ("asked", "agent", "group", "question", "answer"), quoted, texts=5)
    return PageSection("Interviews", tables=_drop_empty([table, _list_failures(recording, INTERVIEW)]))


def _stack(recording: Recording, question: _Question) -> PageStacks | None:
    """How the answers to a question of few possible answers divide, a line a moment."""
    if not question.answers and question.kind != "choice":
        return None
    lines: dict[str, dict[str, int]] = {}
    asked: dict[str, int] = {}
    for moment, number, _, answer, count in recording.ask(
        f"SELECT moment, round, {_MOMENT} AS place, answer_text, count(*) FROM surveys WHERE survey = $survey AND "
        "question = $question GROUP BY ALL ORDER BY place, answer_text",
        survey=question.survey,
        question=question.name,
    ):
        label = _tell_moment(moment, number)
        asked[label] = asked.get(label, 0) + count
        if answer is not None:
            lines.setdefault(label, {})[answer] = count
    shown = list(lines.items())
    if len(shown) > MOMENTS_MAX:
        shown = [shown[place * (len(shown) - 1) // (MOMENTS_MAX - 1)] for place in range(MOMENTS_MAX)]
    known = [*question.answers, *sorted({one for line in lines.values() for one in line} - set(question.answers))]
    return PageStacks(
        f"{question.text} ({question.survey}: {question.name})",
        known,
        [
            (label, f"n {sum(line.values()):,} of {asked[label]:,}", [line.get(one, 0) for one in known])
            for label, line in shown
        ],
        is_ordered=question.kind != "choice",
    )


def _list_numbers(recording: Recording, question: _Question) -> list[Row]:
    """Mean, standard deviation with n - 1 and median of answers by moment and group, and of all groups together."""
    if question.kind in ("text", "choice"):
        return []
    rows = recording.ask(
        "SELECT moment, round, CASE WHEN grouping(\"group\") = 1 THEN 'all' ELSE coalesce(\"group\", '–') END, "
        "count(*), count(answer_number), avg(answer_number), stddev_samp(answer_number), median(answer_number), "
        f'grouping("group") AS whole, {_MOMENT} AS place FROM surveys WHERE survey = $survey AND question = $question '
        'GROUP BY GROUPING SETS ((moment, round), (moment, round, "group")) ORDER BY place, whole DESC, "group"',
        survey=question.survey,
        question=question.name,
    )
    groups = {row[2] for row in rows if not row[8] and row[4]}
    return [
        (question.survey, question.name, _tell_moment(moment, number), group, f"{n:,} of {asked:,}", mean, std, median)
        for moment, number, group, asked, n, mean, std, median, whole, _ in rows
        if whole or (len(groups) > 1 and n)
    ]


def _quote(recording: Recording, question: _Question) -> list[PageTable]:
    rows = recording.ask(
        "SELECT moment, round, agent, coalesce(\"group\", '–'), answer_text FROM surveys WHERE survey = $survey AND "
        f"question = $question AND answer_text IS NOT NULL ORDER BY {_MOMENT}, agent LIMIT {QUOTES_MAX + 1}",
        survey=question.survey,
        question=question.name,
    )
    told = [(_tell_moment(moment, number), *rest) for moment, number, *rest in rows[:QUOTES_MAX]]
    caption = f"{question.text} ({question.survey}: {question.name})"
    if len(rows) > QUOTES_MAX:
        caption += f", the first {QUOTES_MAX} answers; all: ecumene export"
    is_long = len(told) > 10
    return [make_table(caption, ("asked", "agent", "group", "answer"), told, texts=4, is_folded=is_long)]


def _list_failures(recording: Recording, kind: str) -> PageTable:
    """Agents that gave no answer, each asking counted once."""
    rows = recording.ask(
        "SELECT survey, status, coalesce(reason, '–'), count(DISTINCT (agent, moment, round)) AS n FROM surveys "
        "WHERE kind = $kind AND status <> 'ok' GROUP BY ALL ORDER BY survey, n DESC, status, 3",
        kind=kind,
    )
    told = [
        (survey, "decide by a rule" if status == "unsupported" else status, reason, count)
        for survey, status, reason, count in rows
    ]
    return make_table("Who gave no answer, and why", (kind, "status", "reason", "agents asked"), told, texts=3)


def _describe_question(spec: Mapping[str, Any], survey: str, question: str, kind: str) -> _Question:
    """A question as its spec has it; of a spec that does not tell, as its answers are."""
    found: Mapping[str, Any] = next(
        (
            told
            for one in _list(spec, "surveys")
            for told in _list(one, "questions")
            if (one.get("name"), told.get("name")) == (survey, question)
        ),
        {},
    )
    answers: list[str] = []
    if kind == "boolean":
        answers = ["no", "yes"]
    elif kind == "choice":
        answers = [str(choice) for choice in _list(found, "choices")]
    elif kind == "scale":
        low, high = (_whole(found.get("minimum"), 1), _whole(found.get("maximum"), 7))
        answers = [str(point) for point in range(low, high + 1)] if high - low < SCALE_POINTS_MAX else []
    text = str(found.get("text") or question)
    if kind == "scale" and (ends := _list(found, "ends")) and len(ends) == 2 and answers:
        text += f" {answers[0]} = {ends[0]}, {answers[-1]} = {ends[1]}"
    return _Question(survey, question, kind, text, answers)


def _list_places(spec: Mapping[str, Any]) -> list[tuple[Any, Any]]:
    return [(one.get("name"), told.get("name")) for one in _list(spec, "surveys") for told in _list(one, "questions")]


def _list(document: Mapping[str, Any], name: str) -> list[Any]:
    found = document.get(name)
    return list(found) if isinstance(found, list | tuple) else []


def _whole(value: object, otherwise: int) -> int:
    return int(value) if isinstance(value, int | float) else otherwise


def _tell_moment(moment: str, number: int | None) -> str:
    if moment == "before":
        return "before round 1"
    return "after the last round" if moment == "after" else f"after round {number}"


def _drop_empty(tables: Sequence[PageTable]) -> list[PageTable]:
    return [table for table in tables if table.rows]
