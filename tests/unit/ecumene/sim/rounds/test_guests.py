"""Guests of a guess game, on a real server: who is waited for, and what becomes of each."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import ecumene
import grpc
import pytest
from ecumene import LeaseExpiredError, World
from ecumene.client.model import EventFilter, EventType
from ecumene.client.records import TurnStatus
from ecumene.sim.rounds.conductor import Conductor
from ecumene.sim.rounds.guests import Guests
from ecumene.sim.rounds.plans import GamePlan
from ecumene.sim.rounds.results import RoundResult
from env_api.v1 import lease_service_pb2, lease_service_pb2_grpc

from tests.journey.test_run import Silent
from tests.services import ServerProcess

AGENTS = ("a", "b")
PLAYERS, REPORTS = "/game/players", "/game/reports"


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """Of the conductor."""
    with ServerProcess(tmp_path / "data") as server:
        async with ecumene.connect(server.address) as opened:
            opened.address = server.address  # type: ignore[attr-defined]
            yield opened


@asynccontextmanager
async def conduct(
    world: World, *, awaited: int = 0, deadline_ms: int = 0, run: str = "run"
) -> AsyncIterator[Conductor]:
    """A game of two agents and whoever joins."""
    plan = GamePlan(rounds=2, participants=len(AGENTS), ratio=2 / 3, deadline_ms=deadline_ms)
    guests = Guests(world, AGENTS, awaited=awaited, holder=run)
    async with Conductor(world, plan, producer=run, observer=Silent(), guests=guests) as conductor:
        yield conductor


@asynccontextmanager
async def another(world: World) -> AsyncIterator[World]:
    """The world of somebody else."""
    async with ecumene.connect(world.address) as opened:  # type: ignore[attr-defined]
        yield opened


@asynccontextmanager
async def playing(conductor: Conductor, world: World) -> AsyncIterator[tuple[asyncio.Task[RoundResult], int]]:
    """A round under way, and its generation."""
    async with world.watch_frames(EventFilter(path_prefix="/game", types=(EventType.BEHAVIOUR,))) as watch:
        task = asyncio.create_task(conductor.play_round(1), name="round")
        opened: Any = (await anext(watch)).values[0]
        yield task, opened["generation"]
        await asyncio.wait_for(task, 20)


async def report(world: World, generation: int, names: Sequence[str], number: Any = 10.0) -> None:
    """Some report."""
    for name in names:
        await world.environment(REPORTS).set(name, number, gate_generation=generation)


async def end_lease(world: World, lease_id: int) -> None:
    """As somebody else can."""
    async with grpc.aio.insecure_channel(world.address) as channel:  # type: ignore[attr-defined]
        stub = lease_service_pb2_grpc.LeaseServiceStub(channel)
        await stub.RevokeLease(lease_service_pb2.RevokeLeaseRequest(world=world.name, lease_id=lease_id))


async def test_a_round_waits_for_agents_and_guests_and_counts_both(world: World) -> None:
    async with conduct(world, awaited=1) as conductor, another(world) as other, other.lease(10) as lease:
        await lease.join(PLAYERS, ["g"])
        await asyncio.wait_for(conductor.wait_for_guests(), 10)
        async with playing(conductor, other) as (round_, generation):
            await report(other, generation, AGENTS)
            assert not (await other.environment(REPORTS).describe()).gates[0].opened
            await report(other, generation, ["g"], 40)
    result = round_.result()
    assert (result.participants, result.reported, result.mean, result.gate_cause) == (3, 3, 20.0, "members")
    turn = result.guests["g"]
    assert (turn.turn, turn.number, turn.status, turn.reason) == (1, 40.0, TurnStatus.OK, "")
    assert turn.opened_revision < turn.commit_revision < result.revision  # type: ignore[operator]
    assert turn.opened_ns < turn.ended_ns


async def test_who_joins_an_open_round_is_waited_for_in_it_and_who_leaves_is_not(world: World) -> None:
    async with conduct(world) as conductor, another(world) as other, other.lease(10) as lease:
        await lease.join(PLAYERS, ["leaves"])
        async with playing(conductor, other) as (round_, generation):
            await lease.join(PLAYERS, ["late"])
            await report(other, generation, AGENTS)
            await lease.leave(PLAYERS, ["leaves"])
            assert not round_.done()
            await report(other, generation, ["late"])
    result = round_.result()
    assert (result.participants, result.reported, result.missing) == (4, 3, 1)
    assert {name: turn.status for name, turn in result.guests.items()} == {
        "late": TurnStatus.OK,
        "leaves": TurnStatus.CANCELLED,
    }


async def test_a_guest_without_a_number_fails_and_one_that_says_nothing_times_out(world: World) -> None:
    async with conduct(world, deadline_ms=2000) as conductor, another(world) as other, other.lease(10) as lease:
        await lease.join(PLAYERS, ["vague", "silent", "undecided"])
        async with playing(conductor, other) as (round_, generation):
            await report(other, generation, AGENTS)
            await report(other, generation, ["vague"], "many")
            await report(other, generation, ["undecided"], 99.0)
            await report(other, generation, ["undecided"], 1.0)
    result = round_.result()
    assert (result.reported, result.failed, result.missing, result.gate_cause) == (3, 1, 1, "deadline")
    found = {name: (turn.status, turn.number) for name, turn in result.guests.items()}
    assert found == {
        "vague": (TurnStatus.PARSE_ERROR, None),
        "silent": (TurnStatus.TIMEOUT, None),
        "undecided": (TurnStatus.OK, 1.0),
    }


async def test_a_guest_cannot_take_the_name_of_an_agent(world: World) -> None:
    async with conduct(world), another(world) as other, other.lease(10) as lease:
        with pytest.raises(ecumene.EntryExistsError):
            await lease.join(PLAYERS, ["a"])


async def test_who_stayed_is_not_waited_for_by_a_run_without_guests(world: World) -> None:
    async with another(world) as other, other.lease(10) as lease:
        async with conduct(world) as conductor:
            await lease.join(PLAYERS, ["stays"])
            async with playing(conductor, other) as (first, generation):
                await report(other, generation, [*AGENTS, "stays"])
        plan = GamePlan(rounds=1, participants=len(AGENTS), ratio=2 / 3)
        async with (
            Conductor(world, plan, producer="another-run", observer=Silent()) as conductor,
            playing(conductor, other) as (second, generation),
        ):
            await report(other, generation, AGENTS)
    assert (first.result().participants, second.result().participants) == (3, 2)
    assert (second.result().gate_cause, second.result().guests) == ("count", {})


async def test_who_stayed_plays_in_the_next_run_too_even_if_the_last_one_was_killed(world: World) -> None:
    async with another(world) as other, other.lease(10) as lease:
        async with conduct(world):
            await lease.join(PLAYERS, ["stays"])
        async with another(world) as killed:
            await (await killed.lease(2)).join(PLAYERS, AGENTS)
        async with conduct(world, awaited=1, run="next") as conductor:
            await asyncio.wait_for(conductor.wait_for_guests(), 10)
            async with playing(conductor, other) as (round_, generation):
                await report(other, generation, [*AGENTS, "stays"])
    assert (round_.result().participants, list(round_.result().guests)) == (3, ["stays"])


async def test_a_run_whose_own_lease_has_ended_goes_no_further(world: World) -> None:
    with pytest.raises(LeaseExpiredError):
        async with conduct(world) as conductor:
            (lease,) = await world.leases()
            playing_on = asyncio.create_task(conductor.play_round(1), name="round")
            try:
                await end_lease(world, lease.lease_id)
                await asyncio.sleep(60)  # until the block is cancelled
            finally:
                playing_on.cancel()
                await asyncio.gather(playing_on, return_exceptions=True)
