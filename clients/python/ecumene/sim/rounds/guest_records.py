"""Records what guests did as what agents do is recorded: a turn for each round, and an action for each report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from ecumene.client.records import ACTIONS, TURNS, Table, close_part, list_parts, name_part
from ecumene.sim.rounds.guests import GUESTS, GuestTurn
from ecumene.sim.rounds.plans import REPORT_ACTION, REPORTS_PATH
from ecumene.sim.rounds.results import RoundResult

SOURCE = "guests"
NS_PER_MS = 1e6


class GuestRecorder:
    """Writes a part of each table for each round with guests, beside those of the runtime."""

    def __init__(self, directory: Path, *, run: str) -> None:
        self._directory = directory
        self._run = run

    def record(self, result: RoundResult) -> None:
        """Write the turns of a round. Blocks. Raises OSError."""
        turns = [self._make_turn(guest, turn, result.round) for guest, turn in result.guests.items()]
        self._write(TURNS, turns)
        told = [(guest, turn) for guest, turn in result.guests.items() if turn.number is not None]
        if told:
            self._write(ACTIONS, [self._make_action(guest, turn, result.round) for guest, turn in told])

    def _make_turn(self, guest: str, turn: GuestTurn, round_number: int) -> dict[str, Any]:
        return {
            **self._name(guest, turn, round_number),
            "observation_revision": turn.opened_revision,
            "wall_time_ns": turn.opened_ns,
            "observed_at_ns": turn.opened_ns,
            "status": turn.status.value,
            "reason": turn.reason or None,
            **dict.fromkeys(("attempts", "prompt_tokens", "completion_tokens"), 0),
            "latency_ms": (turn.ended_ns - turn.opened_ns) / NS_PER_MS,
        }

    def _make_action(self, guest: str, turn: GuestTurn, round_number: int) -> dict[str, Any]:
        return {
            **self._name(guest, turn, round_number),
            "seq": 0,
            "action": REPORT_ACTION,
            "path": REPORTS_PATH,
            "key": guest,
            "value_kind": "double",
            "value_double": turn.number,
            "commit_revision": turn.commit_revision,
            "observation_revision": turn.opened_revision,
            "observed_at_ns": turn.opened_ns,
        }

    def _name(self, guest: str, turn: GuestTurn, round_number: int) -> dict[str, Any]:
        return {"run": self._run, "agent": guest, "group": GUESTS, "turn": turn.turn, "round": round_number}

    def _write(self, table: Table, rows: list[dict[str, Any]]) -> None:
        staging = self._directory / ".staging" / SOURCE
        for folder in (staging, self._directory / table.name):
            folder.mkdir(parents=True, exist_ok=True)
        number = max(list_parts(self._directory, table, SOURCE).values(), default=0) + 1
        target = self._directory / table.name / name_part(SOURCE, number)
        close_part(pa.Table.from_pylist(rows, schema=table.schema), target, staging)
        staging.rmdir()
