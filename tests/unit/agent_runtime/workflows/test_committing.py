"""Outcomes are written once, with the effects of their call or without any."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from ecumene import AbortedError, World
from ecumene.workflows.limits import INLINE_BYTES_MAX
from ecumene.workflows.messages import CALLS, Message, inbox_path, outcomes_path, write_large, write_ok

from agent_runtime.workflows.committing import Committing, name_producer, number_attempt


def make_message(number: int = 1, **more: Any) -> Message:
    document = {"do": "call", "flow": "f", "caller": "7", "call": number, "lane": "", "actor": "f.7.1"}
    message = Message({**document, "class": "m:C", "method": "go", "in": [[]], **more}, 10)
    message.attempt = 1
    return message


class Told:
    """What a committing host was told."""

    def __init__(self) -> None:
        self.durable: list[tuple[int, str]] = []
        self.gone: list[int] = []


@pytest.fixture
async def committing(world: World) -> AsyncIterator[tuple[Committing, Told]]:
    """For host `ann`."""
    told = Told()
    revision = (await world.environment(inbox_path("ann")).get(CALLS)).create_revision
    made = Committing(
        world,
        "ann",
        revision,
        lambda message, text: told.durable.append((message.number, text)),
        lambda message: told.gone.append(message.number),
    )
    yield made, told
    await made.close()


async def commit(committing: Committing, message: Message, text: str, effects: Any = None) -> Exception | None:
    done: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
    committing.commit(message, text, effects, done.set_result)
    return await done


async def test_the_first_outcome_counts(world: World, committing: tuple[Committing, Told]) -> None:
    host, told = committing
    assert await commit(host, make_message(), '{"ok":1}') is None
    assert await commit(host, make_message(), '{"ok":2}') is None
    assert await world.environment(outcomes_path("f", "7")).value("r1") == '{"ok":1}'
    assert told.durable == [(1, '{"ok":1}')]


async def test_a_large_outcome_is_told_by_its_size(world: World, committing: tuple[Committing, Told]) -> None:
    host, told = committing
    text = write_ok("x" * INLINE_BYTES_MAX)
    assert await commit(host, make_message(), text) is None
    place = world.environment(outcomes_path("f", "7"))
    assert await place.value("r1") == write_large(len(text)) == told.durable[0][1]
    assert await place.value("v1") == text


async def test_effects_come_with_the_outcome_or_not_at_all(world: World, committing: tuple[Committing, Told]) -> None:
    host, told = committing
    place, outcomes = world.environment("/place"), world.environment(outcomes_path("f", "7"))
    assert await commit(host, make_message(1), '{"ok":1}', world.writes().increment("/place", "n")) is None
    conflict = await commit(
        host,
        make_message(2),
        '{"ok":2}',
        world.writes().increment("/place", "n").set("/place", "v", 1, expect_version=9),
    )
    assert isinstance(conflict, AbortedError)
    assert await place.value("n") == 1 and await outcomes.value("r2") is None
    # The same call again, with an outcome that is there: none of its effects.
    assert await commit(host, make_message(1, resent=1), '{"ok":9}', world.writes().increment("/place", "n")) is None
    assert await place.value("n") == 1 and await outcomes.value("r1") == '{"ok":1}'
    assert [number for number, _ in told.durable] == [1]


async def test_a_repetition_after_a_release_has_no_second_effect(
    world: World, committing: tuple[Committing, Told]
) -> None:
    host, _ = committing
    effects = world.writes().increment("/place", "n")
    assert await commit(host, make_message(5, resent=1), '{"ok":1}', effects) is None
    await world.environment(outcomes_path("f", "7")).delete("r5")
    late = await commit(host, make_message(5), '{"ok":1}', world.writes().increment("/place", "n"))
    assert late is not None, "its number was passed"
    assert await world.environment("/place").value("n") == 1


async def test_a_host_whose_inbox_is_another_ones_has_no_effect(
    world: World, committing: tuple[Committing, Told]
) -> None:
    host, told = committing
    inbox = world.environment(inbox_path("ann"))
    await inbox.unregister()
    await inbox.register()
    await inbox.create_stream(CALLS)
    assert await commit(host, make_message(), '{"ok":1}', world.writes().increment("/place", "n")) is None
    assert await world.environment("/place").value("n") is None
    assert await world.environment(outcomes_path("f", "7")).value("r1") is None
    assert not told.durable


async def test_a_caller_that_has_ended_is_told(world: World, committing: tuple[Committing, Told]) -> None:
    host, told = committing
    assert await commit(host, make_message(3, caller="8"), '{"ok":1}') is None
    assert told.gone == [3]


def test_producers_are_one_for_each_lane_and_fit() -> None:
    assert name_producer(make_message()) == "f.7.1.wf"
    assert name_producer(make_message(lane="f.9.2")) == "f.7.1.wf.f.9.2"
    names = {name_producer(make_message(actor="a" * 40, lane="b" * 40 + str(number))) for number in range(100)}
    assert len(names) == 100 and max(map(len, names)) <= 64


def test_numbers_of_attempts_rise() -> None:
    order = []
    for number in (1, 2):
        for resent in (0, 1, 2):
            for attempt in (1, 2, 10_001):
                message = make_message(number, resent=resent)
                message.attempt = attempt
                order.append(number_attempt(message))
    assert order == sorted(order) and len(set(order)) == len(order)
