"""Whatever an agent, a person or an event of anybody does to a turn, it ends, and nobody else's with it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from ecumene.client import DeadlineExceededError, Entry, ErrorDetails, Event, EventType

from agent_runtime.agents.agent import Agent, RuleAgents
from agent_runtime.model.actions import Action
from agent_runtime.turns.deciding import all_numbers
from agent_runtime.turns.presence import Decision
from agent_runtime.turns.turn import Turn
from tests.unit.agent_runtime.fake_world import REPORTS, FakeEnvironment, FakeWorld
from tests.unit.agent_runtime.stage import PLAYERS, FakeOwner, by_agent, make_launch, set_stage, wait_until

HERE = "tests.faults.test_poisoned_turns"
TOO_LONG = 10**5000


class MuteError(Exception):
    """Cannot tell itself."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


class OwnExit(BaseException):
    """No Exception; in a group, as a TaskGroup gives it."""


async def cancel_own_task(turn: Turn) -> None:
    task = asyncio.create_task(asyncio.sleep(1), name="own")
    task.cancel()
    await task


async def cancel_itself(turn: Turn) -> None:
    raise asyncio.CancelledError


async def exit_process(turn: Turn) -> None:
    sys.exit(3)


async def exit_process_in_thread(turn: Turn) -> None:
    await turn.in_thread(sys.exit, 3)


async def interrupt(turn: Turn) -> None:
    raise KeyboardInterrupt


async def raise_group(turn: Turn) -> None:
    raise BaseExceptionGroup("several", [OwnExit()])


async def raise_own_exit(turn: Turn) -> None:
    raise OwnExit


async def raise_own_exit_in_thread(turn: Turn) -> None:
    def work() -> None:
        raise OwnExit

    await turn.in_thread(work)


async def raise_mute(turn: Turn) -> None:
    raise MuteError


async def raise_half_a_sign(turn: Turn) -> None:
    raise ValueError("half a sign: \ud83d")


async def flag_a_number(turn: Turn) -> None:
    turn.flag(cast(str, 3))


async def flag_half_a_sign(turn: Turn) -> None:
    turn.flag("\ud800")


async def name_nothing(turn: Turn) -> None:
    turn.act(cast(str, None), "/game", "k", 1.0)


async def name_half_a_sign(turn: Turn) -> None:
    turn.act("\ud800", "/game", "k", 1.0)


async def give_bytearray(turn: Turn) -> None:
    turn.act("x", "/game", "k", cast(bytes, bytearray(b"x")))


async def give_too_long(turn: Turn) -> None:
    turn.report(TOO_LONG)


async def give_no_gate(turn: Turn) -> None:
    turn.act("x", "/game", "k", 1.0, gate_generation=-1)


async def change_unheard_of(turn: Turn) -> None:
    turn.act("x", "/game", "k", 1.0, change=cast(Any, "boil"))


async def report_a_status(turn: Turn) -> None:
    turn.report({"status": "ok"})


async def smuggle_an_action(turn: Turn) -> None:
    turn.actions.append(Action("x", REPORTS, turn.agent_id, TOO_LONG))


async def smuggle_nonsense(turn: Turn) -> None:
    turn.actions.append(cast(Action, None))


HARMS: dict[str, Callable[[Turn], Any]] = {
    one.__name__: one
    for one in (
        cancel_own_task,
        cancel_itself,
        exit_process,
        exit_process_in_thread,
        interrupt,
        raise_group,
        raise_own_exit,
        raise_own_exit_in_thread,
        raise_mute,
        raise_half_a_sign,
        flag_a_number,
        flag_half_a_sign,
        name_nothing,
        name_half_a_sign,
        give_bytearray,
        give_too_long,
        give_no_gate,
        change_unheard_of,
        report_a_status,
        smuggle_an_action,
        smuggle_nonsense,
    )
}


class Harmful(Agent):
    """Does what its id says, and reports 1.0 if it is called nothing of that."""

    async def on_event(self, event: Event, turn: Turn) -> None:
        if (harm := HARMS.get(self.id)) is None:
            turn.report(1.0)
        else:
            await harm(turn)


class HarmsAgain(Harmful):
    """Does the same once more when it should fall back."""

    def fall_back(self, event: Event, turn: Turn, failure: Exception) -> bool:
        if self.id == "exit_process":
            sys.exit(4)
        raise OwnError(self.id)


class OwnError(Exception):
    """Of an agent."""


@pytest.mark.parametrize("resumable", [False, True])
@pytest.mark.parametrize("kind", ["Harmful", "HarmsAgain"])
async def test_no_agents_code_ends_more_than_its_turn(tmp_path: Path, kind: str, resumable: bool) -> None:
    ids = [*HARMS, "good"]
    async with set_stage(tmp_path, make_launch(tmp_path, f"{HERE}:{kind}", ids, resumable=resumable)) as stage:
        for number in (1, 2):
            stage.world.open_round(number)
            await stage.wait_turns(len(ids) * number)
        (part,) = stage.pipeline.parts.values()
        await wait_until(lambda: part.through >= stage.world.emitted[-1][0])
    turns = stage.read("turns")
    assert len(turns) == 2 * len(ids)
    assert {row["agent"] for row in turns if row["status"] == "ok"} == {"good"}
    assert {row["agent"] for row in turns if row["status"] == "error"} == set(HARMS)
    assert all(row["reason"] for row in turns if row["agent"] != "good")
    assert stage.world.reports() == {**{name: {"status": "error"} for name in HARMS}, "good": 1.0}


BAD_ASKS: dict[str, dict[str, Any]] = {
    "generation below 0": {"generation": -1},
    "generation beyond 64 bits": {"generation": 2**70},
    "round beyond 32 bits": {"round": 3_000_000_000},
    "round below 32 bits": {"round": -(2**40)},
    "no text": {"reports": "/game/\ud800"},
}
POINTLESS_ASKS: dict[str, dict[str, Any]] = {
    "round is none": {"round": True},
    "path is none": {"reports": "nowhere"},
    "path of no environment": {"reports": "/runtime"},
    "path too long": {"reports": "/x" * 1_000},
}


@pytest.mark.parametrize("agent", ["Moody", "Rule"])
@pytest.mark.parametrize("name", [*BAD_ASKS, *POINTLESS_ASKS])
async def test_no_event_ends_the_workers_that_it_wakes(tmp_path: Path, agent: str, name: str) -> None:
    more = (BAD_ASKS | POINTLESS_ASKS)[name]
    async with set_stage(tmp_path, make_launch(tmp_path, f"{PLAYERS}:{agent}", ["number-1", "number-2"])) as stage:
        document = {"round": 1, "generation": 1, "reports": REPORTS, "ratio": 0.5, "offset": 0.0, **more}
        revision = stage.world.emit((EventType.BEHAVIOUR, "/game", "round.opened", document))
        await stage.wait_turns(2)
        stage.world.open_round(2)
        await stage.wait_turns(4)
    turns = stage.read("turns")
    assert sorted(row["agent"] for row in turns if row["round"] == 2 and row["status"] == "ok") == [
        "number-1",
        "number-2",
    ]
    bad = [row for row in turns if row["observation_revision"] == revision]
    assert len(bad) == 2
    if name in BAD_ASKS:
        assert {row["status"] for row in bad} == {"error"}
        assert all("that the event names" in row["reason"] or "is no text" in row["reason"] for row in bad), bad
        assert {row["flags"] for row in bad} == ({"bad_ask,corrected"} if agent == "Moody" else {None})


@pytest.mark.parametrize("agent", ["Moody", "Rule"])
async def test_an_event_that_cannot_be_read_wakes_nobody_and_ends_nobody(tmp_path: Path, agent: str) -> None:
    world = FakeWorld()
    async with set_stage(tmp_path, make_launch(tmp_path, f"{PLAYERS}:{agent}", ["number-1"]), world) as stage:
        world.open_round(1)
        batch = world.emitted[-1][1]
        await stage.wait_turns(1)
        batch._frame.blobs[0] = b"{no json" if hasattr(batch, "_frame") else b""  # the same frame told again, damaged
        world.open_round(2)
        await stage.wait_turns(2)
    assert stage.statuses == {"ok": 2}


class Numbers(RuleAgents):
    """What its id says, read by Python."""

    def decide_many(self, agent_ids: Sequence[str], event: Event) -> list[Any]:
        return [eval(name) for name in agent_ids]


@pytest.mark.parametrize(
    "bad", ["10**400", "10**5000", "2**63", "-2**63-1", "None", "'x'", "True", "1e999", "object()", "'\\ud800'"]
)
async def test_a_number_that_is_none_ends_one_turn(tmp_path: Path, bad: str) -> None:
    ids = ["1.5", "2**60+1", "3", bad]
    async with set_stage(tmp_path, make_launch(tmp_path, f"{HERE}:Numbers", ids)) as stage:
        stage.world.open_round(1)
        await stage.wait_turns(4)
    assert by_agent(stage.read("turns")) == {"1.5": "ok", "2**60+1": "ok", "3": "ok", bad: "error"}
    assert {row["agent"] for row in stage.read("actions")} == {"1.5", "2**60+1", "3"}


class Exits(RuleAgents):
    """Leaves the process rather than decide, alone or with others."""

    def decide_many(self, agent_ids: Sequence[str], event: Event) -> list[Any]:
        if "bad" in agent_ids:
            sys.exit("enough")
        if "own" in agent_ids:
            raise OwnExit
        return [1.0] * len(agent_ids)

    def fall_back(self, agent_id: str, event: Event, failure: Exception) -> float | None:
        raise OwnExit if agent_id == "own" else KeyboardInterrupt


async def test_a_rule_that_leaves_the_process_ends_its_turns_alone(tmp_path: Path) -> None:
    async with set_stage(tmp_path, make_launch(tmp_path, f"{HERE}:Exits", ["bad", "own", "good"])) as stage:
        stage.world.open_round(1)
        await stage.wait_turns(3)
    assert by_agent(stage.read("turns")) == {"bad": "error", "own": "error", "good": "ok"}


def test_numbers_are_those_that_a_world_keeps() -> None:
    assert all_numbers([]) and all_numbers([1.0, 2]) and all_numbers([2**63 - 1, -(2**63)])
    for bad in (10**400, 2**63, -(2**63) - 1, float("nan"), float("inf"), True, None, "1"):
        assert not all_numbers([bad]) and not all_numbers([1, bad]) and not all_numbers([1.0, bad])


@pytest.mark.parametrize("agent", ["Harmful", "Numbers"])
async def test_a_person_who_decides_what_is_none_is_told_and_nobody_ends(tmp_path: Path, agent: str) -> None:
    told: list[dict[str, Any]] = []
    async with set_stage(tmp_path, make_launch(tmp_path, f"{HERE}:{agent}", ["1.5"])) as stage:
        presence = stage.pipeline.presence
        presence.tell = told.append
        presence.seat("1.5", 5.0)
        stage.world.open_round(1)
        await wait_until(lambda: told)
        for number in (10**400, 10**5000):
            count = len(told)
            presence.decide("1.5", 1, Decision((number,)))
            await wait_until(lambda count=count: len(told) > count)
            assert told[-1]["status"] == "refused"
        presence.decide("1.5", 1, Decision((7.0,)))
        await stage.wait_turns(1)
    assert stage.world.reports() == {"1.5": 7.0}


async def test_what_is_changed_after_it_was_decided_changes_nothing(tmp_path: Path) -> None:
    async with set_stage(tmp_path, make_launch(tmp_path, f"{HERE}:Fickle", ["a", "b"])) as stage:
        stage.world.open_round(1)
        await stage.wait_turns(2)
    assert stage.world.reports() == {"a": {"n": [1]}, "b": {"n": [1]}}
    assert {row["value_json"] for row in stage.read("actions")} == {'{"n": [1]}'}


class Fickle(Agent):
    """Changes what it has reported into what nothing can hold."""

    async def on_event(self, event: Event, turn: Turn) -> None:
        document: dict[str, Any] = {"n": [1]}
        turn.report(document)
        document["n"].append(object())


async def test_what_no_frame_can_hold_fails_the_op_that_holds_it_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last line of defence: the checks let something through that the SDK cannot write."""
    monkeypatch.setattr("agent_runtime.turns.turn_edge.check_action", lambda action: None)
    async with set_stage(tmp_path, make_launch(tmp_path, f"{HERE}:Smuggler", ["a", "bad", "c"])) as stage:
        for number in (1, 2):
            stage.world.open_round(number)
            await stage.wait_turns(3 * number)
    assert stage.statuses == {"ok": 4, "error": 2}
    assert {row["agent"] for row in stage.read("turns") if row["status"] == "error"} == {"bad"}
    assert all(row["reason"].startswith("incident ") for row in stage.read("turns") if row["agent"] == "bad")
    assert stage.world.reports() == {"a": {"n": 1}, "bad": {"status": "error"}, "c": {"n": 1}}


class Smuggler(Agent):
    """Puts past the checks what no checks would pass, if it is bad."""

    async def on_event(self, event: Event, turn: Turn) -> None:
        turn.report({"n": 1})
        if self.id == "bad":
            turn.actions[0] = replace(turn.actions[0], gate_generation=-1)


@pytest.mark.parametrize(("agent", "where"), [("Moody", "adopted"), ("Rule", "adopted"), ("Moody", "state")])
async def test_a_world_that_does_not_answer_ends_no_more_than_a_turn(
    tmp_path: Path, agent: str, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = FakeWorld()
    if where == "adopted":
        world.apply("number-1", 40, 1, REPORTS, "number-1", 5.0)
    owner = FakeOwner(world)
    launch = make_launch(tmp_path, f"{PLAYERS}:{agent}", ["number-1", "number-2"], resumable=where == "state" or None)
    get = FakeEnvironment.get

    async def fail_once(self: FakeEnvironment, key: str) -> Entry:
        monkeypatch.setattr(FakeEnvironment, "get", get)
        raise DeadlineExceededError(ErrorDetails(reason="DEADLINE_EXCEEDED"))

    if where == "state":
        async with set_stage(tmp_path, launch, world, owner):
            pass
        ((name, cursor),) = owner.cursors.items()
        owner.cursors[name] = replace(cursor, through=world.revision)
    async with set_stage(tmp_path, launch, world, owner, source="w2") as stage:
        monkeypatch.setattr(FakeEnvironment, "get", fail_once)
        world.open_round(1, revision=40)
        await stage.wait_turns(2)
        world.open_round(2, revision=50)
        await stage.wait_turns(4)
    counts = stage.statuses
    assert counts == ({"ok": 4} if where == "adopted" else {"ok": 3, "error": 1}), counts
