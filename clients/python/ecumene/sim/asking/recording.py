"""Records what agents answered: part files that appear as the answers come, and are read again when a run goes on."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

from ecumene.client.records import SURVEYS, close_part, list_parts, name_part
from ecumene.client.runtime_model import AnswerStatus, SurveyRow
from ecumene.sim.asking.plans import Asking, Moment

SOURCE = "surveys"
PART_AGE_S_MAX = 1.0
UNSUPPORTED = "unsupported"
"""Status of an agent that decides by a rule: it has no opinions."""

Asked = tuple[str, str, int | None, str]
"""Survey, moment, round, agent."""


class SurveyRecorder:
    """Async context manager: answers are on the disk at most a second, and the time of a write, after they came.

    Rows of one agent are in one part, so that a kill leaves an agent wholly asked or not asked.
    """

    def __init__(self, directory: Path, *, run: str) -> None:
        self._directory = directory
        self._run = run
        self._staging = directory / ".staging" / SOURCE
        self._rows: list[dict[str, Any]] = []
        self._writing = threading.Lock()
        self._number = max(list_parts(directory, SURVEYS, SOURCE).values(), default=0)
        self._flushing: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._staging.mkdir(parents=True, exist_ok=True)
        (self._directory / SURVEYS.name).mkdir(parents=True, exist_ok=True)
        self._flushing = asyncio.create_task(self._flush_now_and_then(), name="write answers")
        return self

    async def __aexit__(self, *_: object) -> None:
        """Write what came. Raises OSError."""
        assert self._flushing is not None
        self._flushing.cancel()
        await asyncio.gather(self._flushing, return_exceptions=True)
        self.flush()
        shutil.rmtree(self._staging, ignore_errors=True)
        with contextlib.suppress(OSError):
            self._staging.parent.rmdir()

    def add(self, asking: Asking, moment: Moment, row: SurveyRow) -> None:
        """Take the answers of one agent: a row for each question."""
        self._rows += make_rows(self._run, asking, moment, row)

    def flush(self) -> None:
        """Have everything on the disk. Blocks. Raises OSError."""
        with self._writing:
            rows, self._rows = self._rows, []
            if rows:
                self._number += 1
                target = self._directory / SURVEYS.name / name_part(SOURCE, self._number)
                close_part(pa.Table.from_pylist(rows, schema=SURVEYS.schema), target, self._staging)

    async def _flush_now_and_then(self) -> None:
        while True:
            await asyncio.sleep(PART_AGE_S_MAX)
            await asyncio.to_thread(self.flush)


def make_rows(run: str, asking: Asking, moment: Moment, row: SurveyRow) -> list[dict[str, Any]]:
    """What one agent answered, a row for each question; what the asking cost stands with the first."""
    is_rule = row.status is AnswerStatus.RULE
    made = []
    for place, (question, kind) in enumerate(zip(asking.questions, asking.types, strict=True)):
        answer = row.answers.get(question.name)
        made.append(
            {
                "run": run,
                "kind": asking.kind,
                "survey": asking.name,
                "moment": moment.when,
                "round": moment.round,
                "agent": row.agent,
                "group": row.group or None,
                "question": question.name,
                "type": kind,
                "answer_text": _write(answer),
                "answer_number": float(answer) if isinstance(answer, int | float) else None,
                "status": UNSUPPORTED if is_rule else row.status.name.lower(),
                "reason": None if row.status is AnswerStatus.OK else row.reason or None,
                "model": row.model or None,
                "prompt_tokens": row.prompt_tokens if place == 0 else 0,
                "completion_tokens": row.completion_tokens if place == 0 else 0,
                "latency_ms": row.latency_ms,
            }
        )
    return made


def read_answers(directory: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """All recorded answers of a run. Raises OSError, pyarrow.ArrowException."""
    names = None if columns is None else list(columns)
    schema = SURVEYS.schema if names is None else pa.schema([SURVEYS.schema.field(name) for name in names])
    parts = [pq.read_table(part, columns=names, schema=SURVEYS.schema) for part in list_parts(directory, SURVEYS)]
    return pa.concat_tables(parts).unify_dictionaries() if parts else schema.empty_table()


def list_asked(directory: Path) -> set[Asked]:
    """Who was asked what, and when. Raises OSError, pyarrow.ArrowException."""
    rows = read_answers(directory, ("survey", "moment", "round", "agent")).to_pylist()
    return {(row["survey"], row["moment"], row["round"], row["agent"]) for row in rows}


def _write(answer: Any) -> str | None:
    if isinstance(answer, bool):
        return "yes" if answer else "no"
    return None if answer is None else f"{answer:g}" if isinstance(answer, float) else str(answer)
