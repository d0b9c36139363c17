"""The record of every turn: counted by status, and written in columns to the run's recording."""

from __future__ import annotations

import asyncio
import base64
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ecumene.client import Value
from ecumene.client.records import ACTIONS, CALLS, TURNS, TurnStatus

from agent_runtime.model.actions import Action
from agent_runtime.model.clock import Clock
from agent_runtime.model.notices import Notice
from agent_runtime.recording import Recorder, TableBuffer

if TYPE_CHECKING:
    from agent_runtime.turns.turn import Turn

ROWS_HELD_MAX = 512
DISK_ASKED_S = 0.05
# As the tables state them; `run` is the recorder's to add. `close_turn` gives its rows in this order.
TURN_NAMES, ACTION_NAMES, CALL_NAMES = (
    tuple(column.name for column in table.columns if column.name != "run") for table in (TURNS, ACTIONS, CALLS)
)


@dataclass(frozen=True, slots=True)
class TurnEnd:
    """How one turn ended."""

    status: TurnStatus
    reason: str | None = None


class _Rows:
    """Rows of one table, held until they are worth handing on; tuples, which turn into columns at once."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._rows: list[tuple[Any, ...]] = []

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, row: tuple[Any, ...]) -> None:
        """One row, in the order of the names."""
        self._rows.append(row)

    async def hand_on(self, buffer: TableBuffer) -> None:
        """Give what is held to the recorder, in columns. Cancelled, it is still held."""
        rows, self._rows = self._rows, []
        if not rows:
            return
        taken = False
        try:
            await buffer.put(dict(zip(self._names, zip(*rows, strict=True), strict=True)), len(rows))
            taken = True
        finally:
            if not taken:
                self._rows[:0] = rows


class Ledger:
    """Counts and records what a worker's turns came to. Raises RecordingError where recording fails.

    Rows of single turns are held back and handed on together, within `flush` at the latest.
    """

    def __init__(self, recorder: Recorder | None, clock: Clock) -> None:
        self._recorder = recorder
        self._clock = clock
        self._turns, self._actions, self._calls = _Rows(TURN_NAMES), _Rows(ACTION_NAMES), _Rows(CALL_NAMES)
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
        self,
        group: str,
        turn: Turn,
        model: str | None,
        end: TurnEnd,
        actions: Sequence[Action],
        revision: int | None,
    ) -> None:
        """One turn of an agent of `group` that asked `model` and did `actions` in the commit of `revision`, if any."""
        self.statuses[end.status] += 1
        self.prompt_tokens += turn.prompt_tokens
        self.completion_tokens += turn.completion_tokens
        if revision is not None:
            self.actions_done += len(actions)
        if self._recorder is None:
            return
        notice, agent, number = turn.notice, turn.agent_id, turn.number
        observed_at_ns = notice.observed_at_ns
        observed = (notice.revision, notice.sim_time_ns, observed_at_ns)
        for seq, action in enumerate(actions):
            done = (action.name, action.path, action.key, *spread_value(action.value), revision)
            self._actions.add((agent, group, number, seq, notice.round, *done, *observed))
        self._turns.add(
            (
                agent,
                group,
                number,
                notice.round,
                notice.revision,
                notice.sim_time_ns,
                self._clock.wall_ns(turn.started_s),
                end.status.value,
                end.reason,
                turn.attempts,
                turn.prompt_tokens,
                turn.completion_tokens,
                (self._clock.now_s() - notice.received_s) * 1000,
                model,
                turn.mode,
                ",".join(turn.flags) if turn.flags else None,
                observed_at_ns,
            )
        )
        if len(self._turns) >= ROWS_HELD_MAX or len(self._actions) >= ROWS_HELD_MAX:
            await self.flush()

    def add_call(self, row: tuple[Any, ...]) -> None:
        """One model call of a turn that has not ended yet, in the order of CALL_NAMES."""
        if self._recorder is not None:
            self._calls.add(row)

    async def close_many(
        self,
        group: str,
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
        """Turns of rule agents of one group that ended alike, in columns; with one action each if `action` names it.

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
        shared = {"agent": agents, "group": group, "turn": turns, "round": notice.round}
        observed = {
            "observation_revision": notice.revision,
            "sim_time_ns": notice.sim_time_ns,
            "observed_at_ns": notice.observed_at_ns,
        }
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
                **observed,
            }
            await recorder.actions.put(columns)
        await recorder.turns.put(
            {
                **shared,
                **observed,
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
                await rows.hand_on(buffer)

    async def wait_on_disk(self) -> None:
        """Until all that was recorded so far is on disk, as parts are written anyway. Raises RecordingError."""
        if self._recorder is None:
            return
        await self.flush()
        taken = self._recorder.statistics().rows_taken
        while not self._recorder.has_written(taken):  # noqa: ASYNC110 - the disk's thread has no event of this loop
            await asyncio.sleep(DISK_ASKED_S)

    async def flush_now_and_then(self, every_s: float) -> None:
        """Never lets rows be held for longer than `every_s` seconds."""
        while True:
            await asyncio.sleep(every_s)
            await self.flush()


class PartLedger:
    """The records of one part: those of the worker, until the part is somebody else's, who then records its turns."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._is_closed = False

    @property
    def is_recording(self) -> bool:
        """Whether rows are kept, or only counted."""
        return self._ledger.is_recording and not self._is_closed

    def close(self) -> None:
        """Take nothing any more, silently."""
        self._is_closed = True

    async def close_turn(self, *arguments: Any) -> None:
        """See Ledger."""
        if not self._is_closed:
            await self._ledger.close_turn(*arguments)

    async def close_many(self, *arguments: Any, **columns: Any) -> None:
        """See Ledger."""
        if not self._is_closed:
            await self._ledger.close_many(*arguments, **columns)

    def add_call(self, row: tuple[Any, ...]) -> None:
        """See Ledger."""
        if not self._is_closed:
            self._ledger.add_call(row)

    async def wait_on_disk(self) -> None:
        """Until all that was recorded so far is on disk. Raises RecordingError."""
        await self._ledger.wait_on_disk()


def spread_value(value: Value) -> tuple[Any, ...]:
    """A value in the five columns that the recorded tables have for values: kind, double, int, text, JSON."""
    if isinstance(value, float):
        return "double", value, None, None, None
    if isinstance(value, bool):
        return "bool", None, int(value), None, None
    if isinstance(value, int):
        return "int", None, value, None, None
    if isinstance(value, str):
        return "string", None, None, value, None
    if isinstance(value, bytes):
        return "bytes", None, None, base64.b64encode(value).decode(), None
    if value is None:
        return "null", None, None, None, None
    return "json", None, None, None, json.dumps(value, ensure_ascii=False)
