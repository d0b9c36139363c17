"""Every turn ends once, in one of nine statuses, whatever its agent, its model and its mailbox do."""

from __future__ import annotations

import random
from pathlib import Path

from ecumene.client import Event
from ecumene.client.records import TurnStatus

from agent_runtime.agents.ready import NumberAnswer
from agent_runtime.llm import Message
from agent_runtime.turns.ends import describe_place
from agent_runtime.turns.turn import Turn
from tests.unit.agent_runtime.players import FallsBack, Moody
from tests.unit.agent_runtime.stage import PLAYERS, make_launch, set_stage

HERE = "tests.unit.agent_runtime.turns.test_ends"
MOODS = ("raise-1", "hang-1", "nan-1", "nowhere-1", "two-1", "number-7", "idle-1", "ask-1", "ask-2", "ask-3")


class Mixed(Moody):
    """Moody, or asks its model; those of even numbers have a fallback."""

    async def on_event(self, event: Event, turn: Turn) -> None:
        if not self.id.startswith("ask"):
            await super().on_event(event, turn)
            return
        answer = await turn.llm.ask([Message("user", "a number?")], answer_type=NumberAnswer)
        assert isinstance(answer.value, NumberAnswer)
        turn.report(answer.value.number)

    def fall_back(self, event: Event, turn: Turn, failure: Exception) -> bool:
        return FallsBack.fall_back(self, event, turn, failure) if self.id.endswith("2") else False  # type: ignore[arg-type]


async def test_every_turn_ends_once_in_one_status_with_reason_attempts_tokens_and_latency(
    tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    faults = {"timeout": 0.1, "unavailable": 0.1, "garbage": 0.1, "truncated": 0.1, "refused": 0.1}
    model = {"provider": "scripted", "answers": f"{PLAYERS}:answer_number", "faults": faults, "timeout_s": 0.05}
    models = {"m": {**model, "attempts_max": 1, "repairs_max": 0, "tokens_max": 2_000, "max_tokens": 20}}
    ids = [f"{mood}.{number}" for mood in MOODS for number in range(4)] + ["ask-2"]
    launch = make_launch(tmp_path, f"{HERE}:Mixed", ids, models=models, turn_timeout_s=0.2, mailbox_max=1)
    rounds = 12
    async with set_stage(tmp_path, launch) as stage:
        for number in range(1, rounds + 1):
            stage.world.open_round(number)
            # Three at once fill mailboxes; at other times chance says whether the next comes early.
            if number not in (5, 6) and (number == 7 or chance.random() < 0.7):
                await stage.wait_turns(len(ids) * number)
    rows = stage.read("turns")
    assert len({(row["agent"], row["turn"]) for row in rows}) == len(rows)
    assert sum(stage.statuses.values()) == len(rows)
    # A stop may leave what no turn was begun of to whoever comes next.
    assert len(ids) * (rounds - 2) <= len(rows) <= len(ids) * rounds
    found = {row["status"] for row in rows}
    assert found <= set(TurnStatus)
    assert found >= {"ok", "fallback", "parse_error", "truncated", "refused", "timeout", "error", "cancelled"}, found
    for row in rows:
        assert (row["reason"] is None) == (row["status"] == "ok") or row["reason"] in ("no report",), row
        assert row["latency_ms"] >= 0 and row["attempts"] >= 0 and row["prompt_tokens"] >= 0
        if row["status"] in ("parse_error", "truncated", "refused"):
            assert row["attempts"] == 1 and row["model"] == "scripted"


def test_a_failure_is_placed_where_it_left_the_module_last_and_nowhere_else() -> None:
    def count_on() -> None:
        random.Random(1).randint(2, 1)

    try:
        count_on()
    except ValueError as error:
        line = count_on.__code__.co_firstlineno + 1
        assert describe_place(error, __name__) == f" (test_ends.py, line {line}, in count_on)"
        assert describe_place(error, "elsewhere") == ""
        assert describe_place(error.with_traceback(None), __name__) == ""
