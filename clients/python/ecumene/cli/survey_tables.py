"""The table of a survey: a row an agent, a column a question."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from ecumene.cli.failures import CliError, UsageError, missing_extra
from ecumene.client.runtime_model import AnswerStatus, QuestionType, SurveyQuestion, SurveyRow

SUFFIXES = (".csv", ".parquet")
OWN_COLUMNS = ("agent", "group", "status", "reason")
_ARROW_TYPES = {QuestionType.NUMBER: "float64", QuestionType.INTEGER: "int64", QuestionType.BOOLEAN: "bool"}


def name_columns(questions: Sequence[SurveyQuestion]) -> list[str]:
    """The columns of the table."""
    return ["agent", "group", "status", *(question.name for question in questions), "reason"]


def make_row(row: SurveyRow, questions: Sequence[SurveyQuestion]) -> list[object]:
    """A row of the table."""
    answers = [row.answers.get(question.name) for question in questions]
    return [row.agent, row.group or None, row.status.name.lower(), *answers, row.reason or None]


def count_statuses(rows: Sequence[SurveyRow]) -> str:
    """How many answered, and what came of the others."""
    counts = Counter(row.status for row in rows)
    answered = counts.pop(AnswerStatus.OK, 0)
    others = ", ".join(f"{count:,} {status.name.lower()}" for status, count in counts.most_common())
    return f"{answered:,} of {len(rows):,} agents answered" + (f"; {others}" if others else "")


def check_names(questions: Sequence[SurveyQuestion]) -> None:
    """Raises UsageError for questions whose columns would hide others."""
    for question in questions:
        if question.name in OWN_COLUMNS:
            raise UsageError(f"no question can be called {question.name}: the table has such a column already")


def check_path(path: Path) -> None:
    """Raises UsageError unless the name of a file says how it is to be written, and there is a place for it."""
    if path.suffix not in SUFFIXES:
        raise UsageError(f"{path} is no name of a table", hint=f"let it end with {' or '.join(SUFFIXES)}")
    if not path.parent.is_dir():
        raise UsageError(f"there is no folder {path.parent}")


def write_table(path: Path, rows: Sequence[SurveyRow], questions: Sequence[SurveyQuestion]) -> None:
    """Write the table to a file. Raises CliError, OSError."""
    if path.suffix == ".csv":
        with path.open("w", encoding="utf-8", newline="") as file:
            write_csv(file, rows, questions)
    else:
        _write_parquet(path, rows, questions)


def write_csv(file: TextIO, rows: Sequence[SurveyRow], questions: Sequence[SurveyQuestion]) -> None:
    """Write the table as CSV; what is not there is empty."""
    writer = csv.writer(file)
    writer.writerow(name_columns(questions))
    writer.writerows(["" if cell is None else cell for cell in make_row(row, questions)] for row in rows)


def _write_parquet(path: Path, rows: Sequence[SurveyRow], questions: Sequence[SurveyQuestion]) -> None:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ModuleNotFoundError as error:
        raise missing_extra("survey --out", "runtime") from error
    types = {question.name: _ARROW_TYPES.get(question.type, "string") for question in questions}
    schema = pa.schema([(name, types.get(name, "string")) for name in name_columns(questions)])
    table = [dict(zip(schema.names, make_row(row, questions), strict=True)) for row in rows]
    try:
        pq.write_table(pa.Table.from_pylist(table, schema), path)
    except pa.ArrowException as error:
        raise CliError(f"{path}: {error}") from error
