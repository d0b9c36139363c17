"""Groups as players, on a real server: who belongs to which is told once, and the game takes their means."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import ecumene
import pytest
from ecumene import World
from ecumene.sim.populations.population import Population, build_population
from ecumene.sim.rounds.conductor import Conductor, GameMismatchError
from ecumene.sim.rounds.group_players import keep_members, list_players
from ecumene.sim.rounds.plans import GamePlan
from ecumene.sim.specs.spec import RunSpec, parse_spec

from tests.journey.test_run import Silent
from tests.services import ServerProcess

GROUPS = [{"name": name, "agent": "random", "count": count} for name, count in (("a", 1_700), ("b", 3), ("c", 0))]


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """Of the conductor."""
    with ServerProcess(tmp_path / "data") as server:
        async with ecumene.connect(server.address) as opened:
            yield opened


def make(players: str = "groups") -> tuple[RunSpec, Population]:
    """A spec and its population."""
    spec = parse_spec({"name": "x", "population": {"groups": GROUPS}, "game": {"players": players}})
    return spec, build_population(spec.population, spec.seed)


async def read_members(world: World) -> dict[str, object]:
    """Agent -> group, as the world has it."""
    return {entry.key: entry.value async for entry in world.environment("/game/groups").entries()}


def test_groups_without_anybody_play_not() -> None:
    assert list_players(*make()) == ("a", "b")
    assert list_players(*make("agents")) == ()


async def test_everybody_is_told_to_belong_to_a_group_once_in_a_run(world: World) -> None:
    spec, population = make()
    players = list_players(spec, population)
    plan = GamePlan(rounds=1, participants=len(population), ratio=2 / 3, groups=players)
    async with Conductor(world, plan, producer="run", observer=Silent()):
        await keep_members(world, "/game", players, population, is_resumed=False)
    names = ["a", "b", "c"]
    expected = {agent: names[code] for agent, code in zip(population.name_agents(), population.codes, strict=True)}
    assert await read_members(world) == expected
    revision = world.revision
    await keep_members(world, "/game", players, population, is_resumed=True)
    assert world.revision == revision
    # A run that was killed while it wrote goes on with it.
    await world.environment("/game/groups").delete(population.name_agents()[-1])
    await keep_members(world, "/game", players, population, is_resumed=True)
    assert await read_members(world) == expected


async def test_nothing_is_written_where_agents_play(world: World) -> None:
    _, population = make()
    revision = world.revision
    await keep_members(world, "/game", (), population, is_resumed=False)
    assert world.revision == revision


async def test_a_game_of_agents_is_not_taken_for_one_of_groups(world: World) -> None:
    groups = GamePlan(rounds=1, participants=3, ratio=2 / 3, groups=("a", "b"))
    for _ in range(2):  # as whoever goes on with the run
        async with Conductor(world, groups, producer="run", observer=Silent()):
            pass
    with pytest.raises(GameMismatchError):
        async with Conductor(world, replace(groups, groups=()), producer="run", observer=Silent()):
            pass
