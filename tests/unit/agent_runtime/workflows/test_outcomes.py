"""Outcomes of others reach whoever needs them, whether they are there before, after or while they are asked for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from ecumene import DeadlineExceededError, World
from ecumene.client.errors import ErrorDetails
from ecumene.workflows.messages import outcomes_path, read_outcome, write_large, write_ok

from agent_runtime.workflows import outcomes as module
from agent_runtime.workflows.outcomes import CallerOutcomes

PATH = outcomes_path("f", "7")


@pytest.fixture
async def outcomes(world: World) -> AsyncIterator[CallerOutcomes]:
    """Of caller `7` of flow `f`."""
    made = CallerOutcomes(world, "f", "7")
    yield made
    await made.close()


async def get(outcomes: CallerOutcomes, number: int) -> str:
    got: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    outcomes.need(number, got.set_result)
    return await asyncio.wait_for(got, 10)


async def test_before_after_and_between(world: World, outcomes: CallerOutcomes) -> None:
    place = world.environment(PATH)
    await place.set("r1", '{"ok":1}')
    assert await get(outcomes, 1) == '{"ok":1}'
    waiting = [asyncio.create_task(get(outcomes, number), name="get") for number in (2, 2, 3)]
    await asyncio.sleep(0.05)
    assert not any(task.done() for task in waiting)
    await place.set("r3", '{"ok":3}')
    await place.set("r2", '{"ok":2}')
    assert await asyncio.gather(*waiting) == ['{"ok":2}', '{"ok":2}', '{"ok":3}']


async def test_thousands_are_asked_for_in_few_frames(world: World, outcomes: CallerOutcomes) -> None:
    place = world.environment(PATH)
    for start in range(0, 5000, 1000):
        keys = [f"r{number}" for number in range(start, start + 1000)]
        (await world.frames.send_block(PATH, keys, [f'{{"ok":{key[1:]}}}' for key in keys])).raise_failure()
    frames = world.statistics().outbox.last_seq
    found = await asyncio.gather(*(get(outcomes, number) for number in range(5000)))
    assert found == [f'{{"ok":{number}}}' for number in range(5000)]
    assert world.statistics().outbox.last_seq - frames <= 8
    assert place.path == PATH


async def test_large_ones_are_fetched_and_missing_ones_told_as_lost(world: World, outcomes: CallerOutcomes) -> None:
    place = world.environment(PATH)
    await place.set("v1", write_ok("large"))
    for number in (1, 2):
        await place.set(f"r{number}", write_large(99))
    assert read_outcome(await get(outcomes, 1)).tree == "large"
    failure = read_outcome(await get(outcomes, 2)).failure
    assert failure is not None and failure.code == "RESULT_LOST"


async def test_one_that_is_deleted_while_it_is_needed_is_lost(world: World, outcomes: CallerOutcomes) -> None:
    place = world.environment(PATH)
    waiting = asyncio.create_task(get(outcomes, 1), name="get")
    await asyncio.sleep(0.05)
    await place.set("r1", write_large(9))
    await place.set("r1", '{"ok":1}')
    assert await waiting
    await place.delete("r1")
    await asyncio.sleep(0.05)
    # What was kept is forgotten with it: a new need waits for what comes.
    again = asyncio.create_task(get(outcomes, 1), name="get")
    await place.set("r1", '{"ok":2}')
    assert await again == '{"ok":2}'


async def test_whoever_needs_what_cannot_be_asked_for_is_told(
    world: World, outcomes: CallerOutcomes, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(frame: Any) -> Any:
        raise DeadlineExceededError(ErrorDetails("no time", "DEADLINE"))

    monkeypatch.setattr(world.frames, "send", fail)
    failure = read_outcome(await get(outcomes, 1)).failure
    assert failure is not None and failure.code == "FLOW_LOST" and "no time" in failure.text


async def test_what_is_no_outcome_is_told_as_lost_and_keys_of_others_harm_nobody(
    world: World, outcomes: CallerOutcomes
) -> None:
    place = world.environment(PATH)
    await place.set("r1", 17)
    waiting = asyncio.create_task(get(outcomes, 2), name="get")
    failures = [read_outcome(await get(outcomes, 1)).failure]
    await place.set("rx", "text")
    await place.set("r2", [])
    failures.append(read_outcome(await waiting).failure)
    assert [failure.code for failure in failures if failure is not None] == ["RESULT_LOST"] * 2


async def test_a_reader_that_dies_fails_whoever_needs_something_now_and_later(
    world: World, outcomes: CallerOutcomes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outcomes, "_take_batch", lambda batch: 1 / 0)
    waiting = asyncio.create_task(get(outcomes, 1), name="get")
    await asyncio.sleep(0.05)
    await world.environment(PATH).set("r1", '{"ok":1}')
    for text in (await asyncio.wait_for(waiting, 10), await get(outcomes, 2)):
        failure = read_outcome(text).failure
        assert failure is not None and failure.code == "FLOW_LOST" and "ZeroDivisionError" in failure.text


async def test_a_caller_that_has_ended_fails_who_needs_it(world: World, outcomes: CallerOutcomes) -> None:
    waiting = asyncio.create_task(get(outcomes, 1), name="get")
    await asyncio.sleep(0.05)
    await outcomes.close()
    for text in (await waiting, await get(outcomes, 2)):
        failure = read_outcome(text).failure
        assert failure is not None and failure.code == "FLOW_LOST"
    nobody = CallerOutcomes(world, "f", "8")
    failure = read_outcome(await get(nobody, 1)).failure
    assert failure is not None and failure.code == "FLOW_LOST"
    await nobody.close()


async def test_what_is_kept_is_bounded(world: World, outcomes: CallerOutcomes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT_BYTES_MAX", 1000)
    for number in range(100):
        outcomes.keep(number, write_ok("x" * 90))
    assert outcomes._kept_bytes <= 1000 and len(outcomes._kept) == 10
    assert await get(outcomes, 99) == write_ok("x" * 90)
