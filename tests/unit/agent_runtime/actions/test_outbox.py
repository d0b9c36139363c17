"""Packing: equal ops of many agents in few frames, each agent's ops in their order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest
from ecumene.client import ClosedError, GateClosedError, InvalidArgumentError, World

from agent_runtime.actions.outbox import Outbox
from agent_runtime.model.actions import Action
from agent_runtime.model.owned_tasks import OwnedTasks
from agent_runtime.settings import WorkerSettings
from tests.unit.agent_runtime.fake_world import REPORTS, FakeWorld
from tests.unit.agent_runtime.stage import wait_until


def report(agent: str, value: Any, generation: int = 1) -> list[Action]:
    return [Action("report", REPORTS, agent, value, gate_generation=generation)]


@pytest.fixture
def world() -> FakeWorld:
    return FakeWorld()


@pytest.fixture
async def tasks() -> AsyncIterator[OwnedTasks]:
    owned = OwnedTasks()
    yield owned
    await owned.cancel_all()


def make_outbox(world: FakeWorld, tasks: OwnedTasks, **settings: Any) -> Outbox:
    return Outbox(cast(World, world), tasks, WorkerSettings(**{"block_ops_max": 100, **settings}))


async def test_ops_of_many_agents_travel_in_full_blocks(world: FakeWorld, tasks: OwnedTasks) -> None:
    outbox = make_outbox(world, tasks)
    sends = [outbox.send(f"a{number}", 11, report(f"a{number}", float(number))) for number in range(250)]
    outcomes = await asyncio.gather(*sends)
    assert [len(keys) for keys, _, _ in world.frames.blocks] == [100, 100, 50]
    assert world.reports() == {f"a{number}": float(number) for number in range(250)}
    assert [outcome.revision for outcome in outcomes] == list(range(11, 261))


async def test_a_lonely_op_goes_after_the_linger(world: FakeWorld, tasks: OwnedTasks) -> None:
    outcome = await make_outbox(world, tasks).send("ann", 11, report("ann", 1.0))
    assert (outcome.revision, outcome.error, outcome.duplicate) == (11, None, False)


async def test_kinds_generations_and_numbers_are_never_mixed_in_a_block(world: FakeWorld, tasks: OwnedTasks) -> None:
    outbox = make_outbox(world, tasks)
    values: list[tuple[Any, int, int]] = [
        (1.0, 1, 11),
        (1, 1, 11),
        ("x", 1, 11),
        ({"a": 1}, 1, 11),
        (2.0, 0, 11),
        (3.0, 1, 12),
    ]
    sends = [
        outbox.send(f"a{place}", seq, report(f"a{place}", value, gate))
        for place, (value, gate, seq) in enumerate(values)
    ]
    await asyncio.gather(*sends)
    assert len(world.frames.blocks) == len(values)


async def test_packing_keeps_the_order_of_one_agents_ops(world: FakeWorld, tasks: OwnedTasks) -> None:
    outbox = make_outbox(world, tasks)
    values: list[Any] = [1.0, "two", 3.0, {"four": 4}, 5.0, 6]
    sends = [
        asyncio.create_task(outbox.send("ann", 11 + place, report("ann", value)), name=f"send {place}")
        for place, value in enumerate(values)
    ]
    others = [
        asyncio.create_task(outbox.send(f"b{place}", 11, report(f"b{place}", 0.0)), name=f"other {place}")
        for place in range(5)
    ]
    outcomes = await asyncio.gather(*sends)
    await asyncio.gather(*others)
    assert all(outcome.error is None for outcome in outcomes)
    sent = [
        value for keys, block, _ in world.frames.blocks for key, value in zip(keys, block, strict=True) if key == "ann"
    ]
    assert sent == values
    assert world.reports()["ann"] == 6


async def test_a_transaction_does_not_overtake_what_lingers(world: FakeWorld, tasks: OwnedTasks) -> None:
    outbox = make_outbox(world, tasks, linger_ms=10_000)
    first = asyncio.create_task(outbox.send("ann", 11, report("ann", 1.0)), name="first")
    await asyncio.sleep(0)
    both = [*report("ann", 2.0), Action("say", "/game", "ann", "hello")]
    second = await outbox.send("ann", 12, both)
    assert (await first).revision == 11
    assert second.revision is not None and second.revision > 11


async def test_failures_reach_the_op_that_failed_and_no_other(world: FakeWorld, tasks: OwnedTasks) -> None:
    outbox = make_outbox(world, tasks)
    world.apply("b", 11, 9, REPORTS, "b", 0.0)  # kept under b and 11: refused
    outcomes = await asyncio.gather(*(outbox.send(name, 11, report(name, 1.0)) for name in "abc"))
    assert isinstance(outcomes[1].error, GateClosedError)
    assert [outcome.revision for outcome in outcomes] == [11, None, 12]


async def test_duplicates_are_told_with_the_revision_of_the_first(world: FakeWorld, tasks: OwnedTasks) -> None:
    outbox = make_outbox(world, tasks)
    first = await outbox.send("ann", 11, report("ann", 1.0))
    second = await outbox.send("ann", 11, report("ann", 2.0))
    assert (second.duplicate, second.revision) == (True, first.revision)
    assert world.reports() == {"ann": 1.0}


async def test_sends_wait_while_too_many_are_unanswered(world: FakeWorld, tasks: OwnedTasks) -> None:
    world.hold_answers = True
    outbox = make_outbox(world, tasks, ops_waiting_max=2, block_ops_max=1)
    sends = [asyncio.create_task(outbox.send(f"a{n}", 11, report(f"a{n}", 1.0)), name=f"send {n}") for n in range(3)]
    await wait_until(lambda: len(world.held) == 2)
    assert len(world.frames.blocks) == 2
    world.release_answers()
    await asyncio.gather(*sends)
    assert len(world.frames.blocks) == 3


async def test_the_end_of_the_session_is_the_outcome_of_all_that_waits(world: FakeWorld, tasks: OwnedTasks) -> None:
    async def refuse(*arguments: Any, **options: Any) -> Any:
        raise ClosedError()

    world.frames.submit_block = refuse  # type: ignore[method-assign]
    outbox = make_outbox(world, tasks)
    outcomes = await asyncio.gather(*(outbox.send(name, 11, report(name, 1.0)) for name in "ab"))
    assert all(isinstance(outcome.error, ClosedError) for outcome in outcomes)


async def test_who_is_cancelled_among_many_takes_nobody_else_along(world: FakeWorld, tasks: OwnedTasks) -> None:
    """A turn of several actions waits for what its agent has in a block, not for all others of that block."""
    outbox = make_outbox(world, tasks, linger_ms=10_000)
    world.hold_answers = True
    sends = [outbox.send(name, 11, report(name, 1.0)) for name in ("a", "b", "c")]
    firsts = [asyncio.create_task(send, name="first") for send in sends]
    await asyncio.sleep(0)
    both = [*report("a", 2.0), Action("say", "/game", "a", "hello")]
    second = asyncio.create_task(outbox.send("a", 12, both), name="second")
    await wait_until(lambda: world.held)
    firsts[1].cancel()
    await asyncio.gather(firsts[1], return_exceptions=True)
    await asyncio.sleep(0)
    assert not second.done(), "it goes on waiting"
    world.release_answers()
    assert [(await first).error for first in (firsts[0], firsts[2])] == [None, None]
    assert (await second).error is None


async def test_whoever_waits_for_what_it_sent_before_and_is_cancelled_takes_nobody_along(
    world: FakeWorld, tasks: OwnedTasks
) -> None:
    outbox = make_outbox(world, tasks, linger_ms=10_000)
    world.hold_answers = True
    firsts = [asyncio.create_task(outbox.send(name, 11, report(name, 1.0)), name="first") for name in ("a", "b")]
    await asyncio.sleep(0)
    both = [*report("a", 2.0), Action("say", "/game", "a", "hello")]
    second = asyncio.create_task(outbox.send("a", 12, both), name="second")
    await wait_until(lambda: world.held)
    second.cancel()
    await asyncio.gather(second, return_exceptions=True)
    world.release_answers()
    assert [(await first).error for first in firsts] == [None, None]


async def test_what_cannot_be_written_fails_alone(world: FakeWorld, tasks: OwnedTasks) -> None:
    outbox = make_outbox(world, tasks)
    sends = [outbox.send(name, 11, report(name, {"name": name})) for name in ("a", "b")]
    bad = outbox.send("bad", 11, [Action("report", REPORTS, "\ud800", {"name": "bad"}, gate_generation=1)])
    first, second, third = await asyncio.gather(*sends, bad, return_exceptions=True)
    assert not isinstance(first, BaseException) and first.error is None
    assert not isinstance(second, BaseException) and second.error is None
    assert isinstance(third, InvalidArgumentError)
    assert world.reports() == {"a": {"name": "a"}, "b": {"name": "b"}}
