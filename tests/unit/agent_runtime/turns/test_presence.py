"""Muted agents and persons in seats, through a whole pipeline; interviews leave no trace."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from ecumene.client import EventType

from agent_runtime.turns.interviews import InterviewQuestion, NoAgentError, NoMemoryError
from agent_runtime.turns.presence import Chosen, Decision, NobodySitsError
from tests.unit.agent_runtime.fake_world import REPORTS, FakeWorld
from tests.unit.agent_runtime.stage import Stage, by_agent, make_launch, set_stage, wait_until

PLAYERS = "tests.unit.agent_runtime.players"
RULE: dict[str, Any] = {"agent": "level-k", "parameters": {"level": 0}}
MOODY: dict[str, Any] = {"agent": f"{PLAYERS}:Moody"}
ASK = {"ratio": 2 / 3, "round": 1, "reports": REPORTS, "generation": 1}


def open_round(stage: Stage) -> None:
    stage.world.emit((EventType.BEHAVIOUR, "/game", "round.opened", ASK))


def hear(stage: Stage) -> list[dict[str, Any]]:
    """What the daemon is told of seats."""
    told: list[dict[str, Any]] = []
    stage.pipeline.presence.tell = told.append
    return told


@pytest.mark.parametrize("kind", [RULE, MOODY])
async def test_a_muted_agent_takes_no_turn_and_is_told_so(tmp_path: Path, kind: dict[str, Any]) -> None:
    launch = make_launch(tmp_path, kind["agent"], ["number-1", "number-2"], parameters=kind.get("parameters", {}))
    async with set_stage(tmp_path, launch) as stage:
        stage.pipeline.presence.mute("number-1", True)
        open_round(stage)
        await stage.wait_turns(2)
        assert stage.world.entries[REPORTS, "number-1"] == {"status": "cancelled"}
        stage.pipeline.presence.mute("number-1", False)
    rows = stage.read("turns")
    assert by_agent(rows) == {"number-1": "cancelled", "number-2": "ok"}
    assert [row["reason"] for row in rows if row["status"] == "cancelled"] == ["muted"]


@pytest.mark.parametrize("kind", [RULE, MOODY])
async def test_what_a_person_decides_is_the_agents_report(tmp_path: Path, kind: dict[str, Any]) -> None:
    launch = make_launch(tmp_path, kind["agent"], ["number-1", "number-2"], parameters=kind.get("parameters", {}))
    async with set_stage(tmp_path, launch) as stage:
        told, presence = hear(stage), stage.pipeline.presence
        presence.seat("number-1", 20.0)
        open_round(stage)
        await wait_until(lambda: told)
        assert (told[0]["seat"], told[0]["asks_report"], told[0]["events"][0]["key"]) == (
            "number-1",
            True,
            "round.opened",
        )
        with pytest.raises(NobodySitsError):
            presence.decide("number-1", 7, Decision((3.0,)))
        presence.decide("number-1", told[0]["turn"], Decision((float("nan"),)))
        await wait_until(lambda: len(told) == 2)
        assert told[1]["status"] == "refused"
        presence.decide("number-1", told[0]["turn"], Decision((33.5,)))
        await stage.wait_turns(2)
        await wait_until(lambda: len(told) == 3)
        assert (told[2]["status"], told[2]["turn"]) == ("ok", 1)
        assert stage.world.entries[REPORTS, "number-1"] == 33.5


@pytest.mark.parametrize(("kind", "own"), [(RULE, 50.0), (MOODY, 1.0)])
async def test_a_person_who_is_silent_leaves_the_turn_to_the_agent(
    tmp_path: Path, kind: dict[str, Any], own: float
) -> None:
    launch = make_launch(tmp_path, kind["agent"], ["number-1"], parameters=kind.get("parameters", {}))
    async with set_stage(tmp_path, launch) as stage:
        told = hear(stage)
        stage.pipeline.presence.seat("number-1", 0.05)
        open_round(stage)
        await stage.wait_turns(1)
        assert stage.world.entries[REPORTS, "number-1"] == own
        await wait_until(lambda: len(told) == 2)
        assert told[1] == {
            "seat": "number-1",
            "turn": 1,
            "status": "fallback",
            "reason": "no word from the seat within 0.05 s",
        }
    assert by_agent(stage.read("turns")) == {"number-1": "fallback"}


async def test_a_seat_that_is_given_back_frees_the_turn_at_once(tmp_path: Path) -> None:
    async with set_stage(tmp_path, make_launch(tmp_path, MOODY["agent"], ["number-1"])) as stage:
        told = hear(stage)
        stage.pipeline.presence.seat("number-1", 600.0)
        open_round(stage)
        await wait_until(lambda: told)
        stage.pipeline.presence.give_back("number-1")
        await stage.wait_turns(1)
        assert stage.world.entries[REPORTS, "number-1"] == 1.0


@pytest.mark.parametrize("kind", [RULE, MOODY])
async def test_a_stop_does_not_wait_for_a_person(tmp_path: Path, kind: dict[str, Any]) -> None:
    launch = make_launch(tmp_path, kind["agent"], ["number-1"], parameters=kind.get("parameters", {}))
    async with asyncio.timeout(10):
        async with set_stage(tmp_path, launch) as stage:
            told = hear(stage)
            stage.pipeline.presence.seat("number-1", 600.0)
            open_round(stage)
            await wait_until(lambda: told)
    assert by_agent(stage.read("turns")) == {"number-1": "cancelled"}


async def test_a_person_may_act_where_the_agent_might(tmp_path: Path) -> None:
    async with set_stage(tmp_path, make_launch(tmp_path, MOODY["agent"], ["number-1"])) as stage:
        told, presence = hear(stage), stage.pipeline.presence
        presence.seat("number-1", 20.0)
        open_round(stage)
        await wait_until(lambda: told)
        presence.decide("number-1", 1, Decision((1.0,), [Chosen("go", "/nowhere", "x", 1)]))
        await wait_until(lambda: len(told) == 2)
        assert told[1]["status"] == "refused" and "there is no environment /nowhere" in told[1]["reason"]
        presence.decide("number-1", 1, Decision((2.0,), [Chosen("say", "/game", "word", "hello")]))
        await stage.wait_turns(1)
        assert (stage.world.entries["/game", "word"], stage.world.entries[REPORTS, "number-1"]) == ("hello", 2.0)


async def test_an_interview_leaves_the_agent_as_it_was_and_writes_nothing(tmp_path: Path) -> None:
    models = {"m": {"provider": "scripted", "answers": f"{PLAYERS}:answer_anything"}}
    launch = make_launch(tmp_path, f"{PLAYERS}:NoteKeeper", ["d-1", "d-2"], models=models)
    world = FakeWorld()
    async with set_stage(tmp_path, launch, world) as stage:
        open_round(stage)
        await stage.wait_turns(2)
        written = dict(world.entries)
        part, _ = stage.pipeline.find_agent("d-1")
        first = await part.interview("d-1", InterviewQuestion("Who are you?", None, 5.0))
        again = await part.interview("d-1", InterviewQuestion("And now?", None, 5.0))
        other = await part.interview("d-2", InterviewQuestion("Who are you?", None, 5.0))
        assert (first["status"], first["text"]) == ("ok", "d-1 was asked: Who are you?")
        assert first["hash_before"] == first["hash_after"] == again["hash_before"] == again["hash_after"]
        assert other["hash_before"] != first["hash_before"]
        schema = {"type": "object", "properties": {"mood": {"type": "integer", "maximum": 10}}}
        typed = await part.interview("d-1", InterviewQuestion("How?", schema, 5.0))
        assert (typed["status"], typed["value"]) == ("ok", {"mood": 7})
        narrow = {"type": "object", "properties": {"mood": {"type": "integer", "maximum": 5}}}
        assert (await part.interview("d-1", InterviewQuestion("How?", narrow, 5.0)))["status"] == "parse_error"
        assert world.entries == written
        with pytest.raises(NoAgentError):
            stage.pipeline.find_agent("nobody")


async def test_an_interview_is_of_the_agent_as_it_was(tmp_path: Path) -> None:
    """Not of what it may become meanwhile, and also where not all of it can be copied."""
    model = {"provider": "scripted", "answers": f"{PLAYERS}:answer_anything", "latency": {"kind": "fixed", "ms": 200}}
    launch = make_launch(tmp_path, f"{PLAYERS}:LockKeeper", ["d-1"], models={"m": model})
    async with set_stage(tmp_path, launch) as stage:
        open_round(stage)
        await stage.wait_turns(1)
        part, _ = stage.pipeline.find_agent("d-1")
        asking = asyncio.create_task(
            part.interview("d-1", InterviewQuestion("Who are you?", None, 5.0)), name="interview"
        )
        await asyncio.sleep(0)
        stage.world.open_round(2)
        await stage.wait_turns(2)
        assert not asking.done()
        told = await asking
        later = await part.interview("d-1", InterviewQuestion("And now?", None, 5.0))
    assert (told["status"], told["hash_before"]) == ("ok", told["hash_after"])
    assert later["hash_before"] != told["hash_before"]


async def test_rule_agents_say_what_they_are(tmp_path: Path) -> None:
    launch = make_launch(tmp_path, "level-k", ["k-1"], parameters={"level": 2})
    async with set_stage(tmp_path, launch) as stage:
        part, _ = stage.pipeline.find_agent("k-1")
        told = await part.interview("k-1", InterviewQuestion("What do you think?", None, 5.0))
    assert (told["status"], told["hash_before"]) == ("rule", told["hash_after"])
    assert 'decides by the rule level-k with {"level": 2}' in told["text"]


async def test_what_an_agent_is_told_it_remembers_once_and_the_world_keeps(tmp_path: Path) -> None:
    models = {"m": {"provider": "scripted", "answers": f"{PLAYERS}:answer_anything"}}
    launch = make_launch(tmp_path, f"{PLAYERS}:NoteKeeper", ["d-1", "d-2"], models=models, resumable=True)
    world = FakeWorld()
    async with set_stage(tmp_path, launch, world) as stage:
        part, _ = stage.pipeline.find_agent("d-1")

        def read(agent: str) -> list[str]:
            (kept,) = [
                value for (path, key), value in world.entries.items() if path.endswith("/agents") and key == agent
            ]
            window: list[str] = kept["memory"]["window"]
            return window

        await part.tell("d-1", "Größer – nur Mut!")
        await part.tell("d-1", "Größer – nur Mut!")
        assert read("d-1") == ["You were told: Größer – nur Mut!"]
        open_round(stage)
        await stage.wait_turns(2)
        await part.tell("d-1", "And now?")
        assert [text for text in read("d-1") if text.startswith("You were told")] == [
            "You were told: Größer – nur Mut!",
            "You were told: And now?",
        ]
        await part.tell("d-1", "You were asked: How are you? You answered: fine")
        assert read("d-1")[-1] == "You were asked: How are you? You answered: fine"
        assert len(read("d-1")) == 4, "the turn between them is remembered as well"
        assert not [text for text in read("d-2") if text.startswith("You were told")]


async def test_rule_agents_cannot_be_told_anything(tmp_path: Path) -> None:
    launch = make_launch(tmp_path, RULE["agent"], ["k-1"], parameters=RULE["parameters"])
    async with set_stage(tmp_path, launch) as stage:
        part, _ = stage.pipeline.find_agent("k-1")
        with pytest.raises(NoMemoryError, match="keep no memory"):
            await part.tell("k-1", "Mut!")
