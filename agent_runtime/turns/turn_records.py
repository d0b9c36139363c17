"""The record of every turn: counted by status, and written in columns to the run's recording."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from ecumene.client.records import ACTIONS, CALLS, TURNS, TurnStatus

from agent_runtime.model.actions import Action
from agent_runtime.model.clock import Clock
from agent_runtime.model.notices import Notice
from agent_runtime.recording import Recorder
from agent_runtime.recording.value_columns import spread_value
from agent_runtime.turns.ends import TurnEnd
from agent_runtime.turns.held_rows import HeldRows, MakeRow

if TYPE_CHECKING:
    from agent_runtime.turns.turn import Turn

ROWS_HELD_MAX = 512
DISK_ASKED_S = 0.05
# As the tables state them; `run` is the recorder's to add. `close_turn` gives its rows in this order.
TURN_NAMES, ACTION_NAMES, CALL_NAMES = (
    tuple(column.name for column in table.columns if column.name != "run") for table in (TURNS, ACTIONS, CALLS)
)


class TurnRecords:
    """Counts and records what a worker's turns came to. Raises RecordingError where recording fails.

    Rows of single turns are held back and handed on together, within `flush` at the latest.
    """

    def __init__(self, recorder: Recorder | None, clock: Clock) -> None:
        self._recorder = recorder
        self._clock = clock
        self._turns, self._actions, self._calls = HeldRows(TURN_NAMES), HeldRows(ACTION_NAMES), HeldRows(CALL_NAMES)
        self._order = asyncio.Lock()
        self.statuses: Counter[TurnStatus] = Counter()
        self.actions_done = 0
        self.prompt_tokens = 0
        self.completion_tokens = 0

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
        if self._recorder is not None:
            self._hold(group, turn, model, end, actions, revision)
        self.statuses[end.status] += 1
        self.prompt_tokens += turn.prompt_tokens
        self.completion_tokens += turn.completion_tokens
        if revision is not None:
            self.actions_done += len(actions)
        if len(self._turns) >= ROWS_HELD_MAX or len(self._actions) >= ROWS_HELD_MAX:
            await self.flush()

    def _hold(
        self,
        group: str,
        turn: Turn,
        model: str | None,
        end: TurnEnd,
        actions: Sequence[Action],
        revision: int | None,
    ) -> None:
        """The rows of a turn: all or, where one of them cannot be made, none."""
        notice, agent, number = turn.notice, turn.agent_id, turn.number
        observed_at_ns = notice.observed_at_ns
        observed = (notice.revision, notice.sim_time_ns, observed_at_ns)
        row = (
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
            None,
        )
        done = [(one.name, one.path, one.key, *spread_value(one.value), revision) for one in actions]
        for seq, columns in enumerate(done):
            self._actions.add((agent, group, number, seq, notice.round, *columns, *observed))
        self._turns.add(row)

    def add_call(self, make: MakeRow) -> None:
        """One model call of a turn that has not ended yet; `make` gives it as CALL_NAMES has it, a little later.

        Where nothing is recorded it is not asked.
        """
        if self._recorder is not None:
            self._calls.add_unmade(make)

    async def close_many(
        self,
        group: str,
        notice: Notice,
        agents: Any,
        turns: Any,
        started_s: npt.NDArray[np.float64],
        end: TurnEnd,
        *,
        action: tuple[str, str] | None = None,
        sim_times_ns: Sequence[int] | None = None,
        values: Any = None,
        revisions: Any = None,
    ) -> None:
        """Turns of rule agents of one group that ended alike, in columns; with one action each if `action` names it and
        its path.

        `agents` is an Arrow array or list of ids, `turns` their numbers, `started_s` when each began, `values`
        doubles, `revisions` those of the commits (None: no effect), `sim_times_ns` what each saw (None: what the notice
        tells).
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
            "sim_time_ns": notice.sim_time_ns if sim_times_ns is None else sim_times_ns,
            "observed_at_ns": notice.observed_at_ns,
        }
        if action is not None:
            columns = {
                **shared,
                "seq": 0,
                "action": action[0],
                "path": action[1],
                "key": agents,
                "value_kind": "double",
                "value_double": np.asarray(values, dtype=np.float64),
                "commit_revision": revisions,
                **observed,
            }
            await recorder.actions.put(columns)
        await recorder.turns.put(
            {
                **shared,
                **observed,
                "wall_time_ns": self._clock.wall_ns_of(started_s),
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
