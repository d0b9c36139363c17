"""What is done from outside, and its notes; seats. Fake workers on a real server."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from ecumene.client import EventFilter, World, connect
from ecumene.client.runtime_errors import AgentNotFoundError, SeatTakenError, TurnOverError, WorldRefusedError
from ecumene.client.runtime_model import AnswerStatus, PartCondition, SeatOutcome, SeatTurn
from ecumene.client.runtime_nodes import RuntimeNode

from agent_runtime.node.hosting import HostedRun
from tests.unit.agent_runtime.nodes import Place, describe_run, make_settings, name_agents, open_served, wait_for


async def read_notes(world: World) -> list[Any]:
    return [entry.value async for entry in world.environment("/runtime/runs/r/interventions").entries()]


async def test_each_intervention_leaves_a_note_in_its_own_revision(tmp_path: Path, home: Place) -> None:
    async with (
        open_served(make_settings(home, tmp_path)) as served,
        RuntimeNode(served.node.address) as node,
        connect(*home) as world,
    ):
        await served.launch(describe_run(), {"g": name_agents(4)})
        room = world.environment("/room")
        await room.register()
        await world.environment("/game").register(kind="guess_game")
        async with world.watch(EventFilter(path_prefix="/room")) as seen:
            edited = await node.edit_entry("r", "/room", "mood", "calm", actor="ann", comment="too wild")
            event = await anext(aiter(seen))
            assert (event.value, event.actor, event.revision) == ("calm", "ann", edited.revision)
        appended = await node.append_event("r", "/room", "rain", {"mm": 3}, actor="ann")
        invoked = await node.run_operation("r", "/game", "open_round", {"participants": 4}, actor="bob")
        deleted = await node.delete_entry("r", "/room", "mood", actor="ann", expect_version=1)
        assert isinstance(invoked.result, dict) and invoked.result["generation"] == 1
        notes = await read_notes(world)
        assert [(note["kind"], note["actor"]) for note in notes] == [
            ("edit", "ann"),
            ("append", "ann"),
            ("operation", "bob"),
            ("delete", "ann"),
        ]
        assert notes[0]["comment"] == "too wild"
        place = world.environment("/runtime/runs/r/interventions")
        for done in (edited, appended, invoked, deleted):
            assert (await place.get(done.note)).create_revision == done.revision


async def test_what_the_world_refuses_leaves_no_note(tmp_path: Path, home: Place) -> None:
    async with (
        open_served(make_settings(home, tmp_path)) as served,
        RuntimeNode(served.node.address) as node,
        connect(*home) as world,
    ):
        await served.launch(describe_run(), {"g": name_agents(4)})
        await world.environment("/room").register()
        with pytest.raises(WorldRefusedError) as refused:
            await node.edit_entry("r", "/room", "mood", 1, actor="ann", expect_version=9)
        assert refused.value.world_reason == "PRECONDITION_FAILED"
        assert await read_notes(world) == []


async def test_a_muted_agent_stays_muted_in_another_worker(tmp_path: Path, home: Place) -> None:
    async with open_served(make_settings(home, tmp_path)) as served, RuntimeNode(served.node.address) as node:
        await served.launch(describe_run(), {"g": name_agents(4)})
        await node.mute("r", "agent-1", actor="ann")
        (run,) = (await node.inspect()).runs
        for worker in run.workers:
            os.kill(worker.pid, signal.SIGKILL)

        async def is_muted_again() -> bool:
            (run,) = (await node.inspect()).runs
            if not all(worker.pid and worker.restarts for worker in run.workers):
                return False
            try:
                # The fake worker answers so for those that are muted.
                return (await node.interview("r", "agent-1", "?")).status is AnswerStatus.RULE
            except Exception:
                return False

        await wait_for(is_muted_again)
        await node.mute("r", "agent-1", actor="ann", muted=False)
        assert (await node.interview("r", "agent-1", "?")).status is AnswerStatus.OK


async def test_a_worker_knows_who_is_muted_when_it_is_told_to_host(
    tmp_path: Path, home: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def tell_nothing(*_: Any) -> None:
        """What else is told behind the answer comes too late: agents are woken by then."""

    async with open_served(make_settings(home, tmp_path)) as served, RuntimeNode(served.node.address) as node:
        await served.launch(describe_run(), {"g": name_agents(4)})
        await node.mute("r", "agent-1", actor="ann")
        monkeypatch.setattr(HostedRun, "part_hosted", tell_nothing)
        (run,) = (await node.inspect()).runs
        before = {worker.pid for worker in run.workers}
        for pid in before:
            os.kill(pid, signal.SIGKILL)

        async def are_live_again() -> bool:
            (run,) = (await node.inspect()).runs
            is_new = all(worker.pid and worker.pid not in before for worker in run.workers)
            return is_new and all(part.condition is PartCondition.LIVE for part in run.parts)

        await wait_for(are_live_again)
        # The fake worker answers so for those that are muted.
        statuses = [(await node.interview("r", f"agent-{number}", "?")).status for number in range(4)]
        assert statuses == [AnswerStatus.OK, AnswerStatus.RULE, AnswerStatus.OK, AnswerStatus.OK]


async def test_a_person_sits_is_told_of_turns_decides_and_leaves(tmp_path: Path, home: Place) -> None:
    async with (
        open_served(make_settings(home, tmp_path)) as served,
        RuntimeNode(served.node.address) as node,
        connect(*home) as world,
    ):
        await served.launch(describe_run(), {"g": name_agents(4)})
        async with node.sit("r", "agent-1", actor="ann", timeout_s=5) as seat:
            assert (seat.group, seat.profile) == ("g", {"age": 3})
            with pytest.raises(SeatTakenError):
                async with node.sit("r", "agent-1", actor="bob", timeout_s=5):
                    pass
            turn = await anext(seat)
            assert isinstance(turn, SeatTurn)
            assert (turn.turn, turn.asks_report, turn.events[0]["key"]) == (1, True, "round.opened")
            await seat.decide(turn.turn, report=42.0)
            assert await anext(seat) == SeatOutcome(1, "ok", "[42.0]")
            await seat.decide(9, report=1.0)
            with pytest.raises(TurnOverError):
                await anext(seat)
        assert [note["kind"] for note in await read_notes(world)] == ["seat"]

        async def is_free() -> bool:
            return not served.node.seats._taken

        await wait_for(is_free)
        async with node.sit("r", "agent-1", actor="bob", timeout_s=5) as seat:
            assert seat.note


async def test_a_person_keeps_the_place_in_another_worker(tmp_path: Path, home: Place) -> None:
    async with open_served(make_settings(home, tmp_path)) as served, RuntimeNode(served.node.address) as node:
        await served.launch(describe_run(), {"g": name_agents(4)})
        async with node.sit("r", "agent-1", actor="ann", timeout_s=30) as seat:
            assert isinstance(await anext(seat), SeatTurn)
            (run,) = (await node.inspect()).runs
            for worker in run.workers:
                os.kill(worker.pid, signal.SIGKILL)
            async with asyncio.timeout(20):
                assert isinstance(await anext(seat), SeatTurn)


@pytest.mark.parametrize("way", ["stopped", "drained"])
async def test_a_person_whose_agent_goes_elsewhere_is_told(tmp_path: Path, home: Place, way: str) -> None:
    async with open_served(make_settings(home, tmp_path)) as served, RuntimeNode(served.node.address) as node:
        await served.launch(describe_run(), {"g": name_agents(4)})
        async with node.sit("r", "agent-1", actor="ann", timeout_s=30) as seat:
            assert isinstance(await anext(seat), SeatTurn)
            await (node.stop("r") if way == "stopped" else node.drain())
            with pytest.raises(AgentNotFoundError):
                async with asyncio.timeout(20):
                    await anext(seat)
