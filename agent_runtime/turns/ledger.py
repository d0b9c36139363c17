"""The record of every turn: counted by status, and written in columns to the run's recording."""

from __future__ import annotations

import asyncio
import base64
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ecumene.client import Value
from ecumene.client.records import ACTIONS, CALLS, TURNS, Table, TurnStatus

from agent_runtime.model.actions import Action
from agent_runtime.model.clock import Clock
from agent_runtime.model.notices import Notice
from agent_runtime.recording import Recorder, TableBuffer

ROWS_HELD_MAX = 512


@dataclass(frozen=True, slots=True)
class TurnEnd:
    """How one turn ended."""

    status: TurnStatus
    reason: str | None = None


class _Rows:
    """Rows of one table, held until they are worth handing on."""

    def __init__(self, table: Table) -> None:
        self._names = [column.name for column in table.columns if column.name != "run"]
        self._rows: list[Mapping[str, Any]] = []

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, row: Mapping[str, Any]) -> None:
        self._rows.append(row)

    def take(self) -> dict[str, list[Any]]:
        """What is held, in columns; columns are made at once, a row at a time costs ten times as much."""
        rows, self._rows = self._rows, []
        return {name: [row.get(name) for row in rows] for name in self._names}


class Ledger:
    """Counts and records what a worker's turns came to. Raises RecordingError where recording fails.

    Rows of single turns are held back and handed on together, within `flush` at the latest.
    """

    def __init__(self, recorder: Recorder | None, clock: Clock) -> None:
        self._recorder = recorder
        self._clock = clock
        self._turns, self._actions, self._calls = _Rows(TURNS), _Rows(ACTIONS), _Rows(CALLS)
        self._order = asyncio.Lock()
        self.statuses: Counter[TurnStatus] = Counter()
        self.actions_done = 0
        self.prompt_tokens = 0
        self.completion_tokens = 0

    @property
    def is_recording(self) -> bool:
        """Whether rows are kept, or only counted."""
        return self._recorder is not None

    async def close_turn(
        self, row: Mapping[str, Any], end: TurnEnd, actions: Sequence[Action], revision: int | None, notice: Notice
    ) -> None:
        """One turn: `row` has its agent, number and what its model cost; `revision` is that of its commit."""
        self.statuses[end.status] += 1
        self.prompt_tokens += row.get("prompt_tokens", 0)
        self.completion_tokens += row.get("completion_tokens", 0)
        if revision is not None:
            self.actions_done += len(actions)
        if self._recorder is None:
            return
        for seq, action in enumerate(actions):
            self._actions.add(
                {
                    "agent": row["agent"],
                    "turn": row["turn"],
                    "seq": seq,
                    "round": notice.round,
                    "action": action.name,
                    "path": action.path,
                    "key": action.key,
                    "commit_revision": revision,
                    **spread_value(action.value),
                }
            )
        self._turns.add(
            {
                **row,
                "round": notice.round,
                "observation_revision": notice.revision,
                "sim_time_ns": notice.sim_time_ns,
                "status": end.status.value,
                "reason": end.reason,
                "latency_ms": (self._clock.now_s() - notice.received_s) * 1000,
            }
        )
        if len(self._turns) >= ROWS_HELD_MAX or len(self._actions) >= ROWS_HELD_MAX:
            await self.flush()

    def add_call(self, row: Mapping[str, Any]) -> None:
        """One model call of a turn that has not ended yet."""
        if self._recorder is not None:
            self._calls.add(row)

    async def close_many(
        self,
        notice: Notice,
        agents: Any,
        turns: Any,
        started_s: float,
        end: TurnEnd,
        *,
        action: str | None = None,
        values: Any = None,
        revisions: Any = None,
    ) -> None:
        """Turns of rule agents that ended alike, in columns; with one action each if `action` names it.

        `agents` is an Arrow array or list of ids, `turns` their numbers, `values` doubles, `revisions`
        those of the commits (None: no effect).
        """
        count = len(agents)
        self.statuses[end.status] += count
        if action is not None and revisions is not None:
            self.actions_done += count
        recorder = self._recorder
        if recorder is None or not count:
            return
        shared = {"agent": agents, "turn": turns, "round": notice.round}
        if action is not None and notice.ask is not None:
            columns = {
                **shared,
                "seq": 0,
                "action": action,
                "path": notice.ask.path,
                "key": agents,
                "value_kind": "double",
                "value_double": values,
                "commit_revision": revisions,
            }
            await recorder.actions.put(columns)
        await recorder.turns.put(
            {
                **shared,
                "observation_revision": notice.revision,
                "sim_time_ns": notice.sim_time_ns,
                "wall_time_ns": self._clock.wall_ns(started_s),
                "status": end.status.value,
                "reason": end.reason,
                "attempts": 0,
                "prompt_tokens": 0,
                "completion_tokens": 0,
                "latency_ms": (self._clock.now_s() - notice.received_s) * 1000,
            }
        )

    async def flush(self) -> None:
        """Hand on what is held: actions and calls first, so that no turn is recorded without them."""
        if self._recorder is None:
            return
        async with self._order:
            for rows, buffer in (
                (self._calls, self._recorder.calls),
                (self._actions, self._recorder.actions),
                (self._turns, self._recorder.turns),
            ):
                await _hand_on(rows, buffer)

    async def flush_now_and_then(self, every_s: float) -> None:
        """Never lets rows be held for longer than `every_s` seconds."""
        while True:
            await asyncio.sleep(every_s)
            await self.flush()


async def _hand_on(rows: _Rows, buffer: TableBuffer) -> None:
    count = len(rows)
    if count:
        await buffer.put(rows.take(), count)


def spread_value(value: Value) -> dict[str, Any]:
    """A value in the columns that the recorded tables have for values."""
    if isinstance(value, bool):
        return {"value_kind": "bool", "value_int": int(value)}
    if isinstance(value, float):
        return {"value_kind": "double", "value_double": value}
    if isinstance(value, int):
        return {"value_kind": "int", "value_int": value}
    if isinstance(value, str):
        return {"value_kind": "string", "value_text": value}
    if isinstance(value, bytes):
        return {"value_kind": "bytes", "value_text": base64.b64encode(value).decode()}
    if value is None:
        return {"value_kind": "null"}
    return {"value_kind": "json", "value_json": json.dumps(value, ensure_ascii=False)}
