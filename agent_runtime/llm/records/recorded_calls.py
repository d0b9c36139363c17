"""The model calls of a recorded run, found by who asked: (agent, turn, call), never by their order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from agent_runtime.llm.requests import ToolCall


class RecordedCallsError(Exception):
    """A run whose calls cannot be replayed; the message says why."""


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """One question as it was recorded. `request_json` is empty where bodies were not recorded."""

    request_hash: str
    request_json: str
    status: str
    reason: str
    finish_reason: str
    text: str
    extract: str
    tool_calls: tuple[ToolCall, ...]
    prompt_tokens: int
    completion_tokens: int
    microdollars: int
    model: str


class RecordedCalls:
    """All calls of one run, in memory: about a kilobyte each, and their bodies."""

    def __init__(self, calls: Mapping[tuple[str, int, int], RecordedCall]) -> None:
        self._calls = calls

    def __len__(self) -> int:
        return len(self._calls)

    def find(self, agent_id: str, turn: int, call: int) -> RecordedCall | None:
        """The call that an agent made."""
        return self._calls.get((agent_id, turn, call))

    @classmethod
    def of_rows(cls, rows: Iterable[Mapping[str, Any]]) -> RecordedCalls:
        """From rows of the table `calls`; of equal ids the later row counts."""
        return cls({(row["agent"], row["turn"], row["call"]): _read_row(row) for row in rows})

    @classmethod
    def load(cls, directory: Path) -> RecordedCalls:
        """From the directory of a run.

        Raises:
            RecordedCallsError: there are none, or they hold no bodies.
        """
        import pyarrow as pa
        import pyarrow.dataset as ds
        import pyarrow.parquet as pq
        from ecumene.client.records import CALLS, list_parts

        parts = list(list_parts(directory, CALLS))
        if not parts:
            raise RecordedCallsError(f"{directory}: no calls are recorded there")
        known = set(pq.read_schema(parts[0]).names)
        if "response_text" not in known or "request_hash" not in known:
            raise RecordedCallsError(f"{directory}: its calls were recorded by a version without bodies")
        try:
            table = ds.dataset(parts, schema=CALLS.schema).to_table()
        except (OSError, pa.ArrowException) as error:
            raise RecordedCallsError(f"{directory}: its calls cannot be read: {error}") from error
        calls = cls.of_rows(row for batch in table.to_batches() for row in batch.to_pylist())
        if not any(call.text or call.tool_calls or call.request_json for call in calls._calls.values()):
            raise RecordedCallsError(f"{directory}: recorded without bodies; record with record_bodies: true")
        return calls


def _read_row(row: Mapping[str, Any]) -> RecordedCall:
    return RecordedCall(
        request_hash=row.get("request_hash") or "",
        request_json=row.get("request_json") or "",
        status=row["status"],
        reason=row.get("reason") or "",
        finish_reason=row.get("finish_reason") or "stop",
        text=row.get("response_text") or "",
        extract=row.get("extract_text") or "",
        tool_calls=_read_tool_calls(row.get("tool_calls_json")),
        prompt_tokens=row.get("prompt_tokens") or 0,
        completion_tokens=row.get("completion_tokens") or 0,
        microdollars=row.get("microdollars") or 0,
        model=row["model"],
    )


def _read_tool_calls(text: str | None) -> tuple[ToolCall, ...]:
    if not text:
        return ()
    return tuple(ToolCall(call["id"], call["name"], call["arguments"]) for call in from_json(text))
