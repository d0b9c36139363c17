"""Agents in a space: a move is an effect of its turn like any other, and what is no move is told with its reason."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from ecumene import Grid, Region, World, connect
from ecumene.client.spaces import Box

from agent_runtime.agents.agent import Agent
from agent_runtime.model.errors import ActionRefusedError
from tests.promises.turn_stage import HERE, Doer, both, ring, say, set_real_stage
from tests.services import ServerProcess

DOER = f"{HERE}:Doer"
SQUARE = "/square"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One server for all; each test has a world of its own."""
    with ServerProcess(tmp_path_factory.mktemp("worlds") / "data") as running:
        yield running


@pytest.fixture
async def world(server: ServerProcess) -> AsyncIterator[World]:
    """A square of nine cells with room for one each: Ann in the middle, Bob at the upper left."""
    async with connect(server.address, f"world-{uuid.uuid4().hex}", create=True) as opened:
        square = opened.environment(SQUARE)
        regions = [Region("gate", Box((2, 2), (2, 2)))]
        await square.register(space=Grid(3, 3, capacity=1), regions=regions)
        await square.set("ann", 0, position=(1, 1))
        await square.set("bob", 0, position=(0, 0))
        yield opened


async def where(world: World, key: str) -> tuple[float, ...]:
    """Where somebody is; () = nowhere."""
    return (await world.environment(SQUARE).get(key)).position


async def test_a_move_and_all_else_of_a_turn_are_one_revision_with_its_events(tmp_path: Path, world: World) -> None:
    Doer.plan(both(say("going"), lambda turn: turn.move(SQUARE, (2, 2))))
    async with set_real_stage(tmp_path, world, DOER, ["ann"]) as stage:
        woken_by = await ring(world, stage)
    assert await where(world, "ann") == (2, 2)
    end = (await world.environment("/bell").set("end", 1)).revision
    told = []
    async with world.watch(from_revision=woken_by + 1) as watch:
        async for event in watch:
            if event.revision >= end:
                break
            told.append((event.revision, event.type.name, event.path))
    (revision,) = {revision for revision, name, _ in told if name == "ENTRY_MOVED"}
    assert {(name, path) for at, name, path in told if at == revision} >= {
        ("ENTRY_MOVED", SQUARE),
        ("REGION_ENTERED", SQUARE),
        ("ENTRY_SET", "/bell"),
    }
    rows = stage.read("actions")
    assert [(row["action"], row["key"], row["commit_revision"]) for row in rows][1] == ("move", "ann", revision)


async def test_one_may_leave_a_space_and_move_another(tmp_path: Path, world: World) -> None:
    Doer.plan(both(lambda turn: turn.move(SQUARE, None), lambda turn: turn.move(SQUARE, (1, 1), "bob")))
    async with set_real_stage(tmp_path, world, DOER, ["ann"]) as stage:
        await ring(world, stage)
    assert (await where(world, "ann"), await where(world, "bob")) == ((), (1, 1))


@pytest.mark.parametrize(
    ("position", "key", "told"),
    [
        ((0, 0), "", "no room"),
        ((3, 0), "", "from 0 to 2"),
        ((0.5, 0), "", "whole"),
        ((1, 2), "eve", "eve"),
        ("home", "", "numbers"),
        ((float("nan"), 0), "", "finite"),
        ((1, 2, 3), "", "one or two|numbers"),
    ],
    ids=["full cell", "outside", "no cell", "nobody", "no position", "no number", "too many"],
)
async def test_a_move_that_cannot_be_is_told_and_changes_nothing(
    tmp_path: Path, world: World, position: Any, key: str, told: str
) -> None:
    def go(turn: Any) -> None:
        try:
            turn.move(SQUARE, position, key)
        except ActionRefusedError as refusal:
            Doer.told.append(f"at once: {refusal.problem}")
            raise

    Doer.plan(both(say("first"), go), say("second"))
    async with set_real_stage(tmp_path, world, DOER, ["ann"]) as stage:
        await ring(world, stage)
        (problem,) = {line.removeprefix("at once: ") for line in Doer.told}
        assert any(word in problem for word in told.split("|")), problem
        assert await world.environment("/bell").value("said-by-ann") == "second"
        assert (await where(world, "ann"), await where(world, "bob")) == ((1, 1), (0, 0))


class Looker(Agent):
    """Tells who is around it."""

    async def on_event(self, event: Any, turn: Any) -> None:
        around = await turn.world.near(SQUARE, self.id, radius=1)
        free = [(x, 0) for x in range(3) if not await turn.world.near(SQUARE, (x, 0), radius=0)]
        turn.act("tell", "/bell", "seen", {"around": list(around.keys), "free": free, "first": around[0].distance})


async def test_an_agent_sees_who_is_near(tmp_path: Path, world: World) -> None:
    async with set_real_stage(tmp_path, world, "tests.promises.test_turns_in_space:Looker", ["ann"]) as stage:
        await ring(world, stage)
    seen = await world.environment("/bell").value("seen")
    assert seen == {"around": ["bob"], "free": [[1, 0], [2, 0]], "first": 1.0}
