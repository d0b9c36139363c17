"""Outcomes are written once, with the effects of their call or without any."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from ecumene import AbortedError, DeadlineExceededError, World
from ecumene.client.errors import ErrorDetails
from ecumene.client.op_calls import OpCalls
from ecumene.workflows.limits import INLINE_BYTES_MAX, RETRY_MAX
from ecumene.workflows.messages import (
    CALL_NUMBER_MAX,
    CALLS,
    Message,
    inbox_path,
    outcomes_path,
    read_outcome,
    write_large,
    write_ok,
)

from agent_runtime.workflows import committing as module
from agent_runtime.workflows.committing import Committing, name_producer, number_attempt
from env_server.model.errors import InvalidRequest
from env_server.model.names import check_identity, check_producer


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
        self.failed: list[Exception] = []


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
        told.failed.append,
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


def test_producers_are_one_for_each_lane_and_caller_fit_and_are_no_agents() -> None:
    assert name_producer(make_message()) == "f.7.1/wf"
    longest = "a" * 64
    messages = [
        make_message(actor=longest, caller=str(caller), lane="b" * 60 + str(lane))
        for caller in range(10)
        for lane in range(100)
    ]
    names = {name_producer(message) for message in messages}
    assert len(names) == len(messages)
    for name in names:
        check_producer(name, "producer")
        with pytest.raises(InvalidRequest):
            check_identity(name, "agent")


def test_numbers_of_attempts_rise_to_their_bounds_and_fit() -> None:
    order = []
    for number in (1, 2, CALL_NUMBER_MAX):
        for resent in (0, 1, 2, 63, 64, 65, RETRY_MAX):
            for attempt in (1, 2, RETRY_MAX + 1):
                message = make_message(number, resent=resent)
                message.attempt = attempt
                order.append(number_attempt(message))
    assert order == sorted(order) and len(set(order)) == len(order)
    assert order[-1] < 1 << 63


async def test_an_actor_made_again_has_effects_on_those_that_it_had_effects_on_before(
    world: World, committing: tuple[Committing, Told]
) -> None:
    host, _ = committing
    await world.environment(outcomes_path("f", "9")).register()
    for caller, number in [("7", 500), ("9", 1)]:
        message = make_message(number, caller=caller, lane="f.7.5")
        assert await commit(host, message, '{"ok":1}', world.writes().increment("/place", "n")) is None
    assert await world.environment("/place").value("n") == 2


class FailingPlace:
    """An environment that takes nothing, or nothing but what is short."""

    def __init__(self, place: Any, refuses: Any) -> None:
        self._place = place
        self._refuses = refuses

    def update(self, key: str, update: Any, options: Any) -> asyncio.Future[Any]:
        if self._refuses(update):
            refused: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            refused.set_exception(DeadlineExceededError(ErrorDetails("no time", "DEADLINE")))
            return refused
        sent: asyncio.Future[Any] = self._place.update(key, update, options)
        return sent


def make_failing(monkeypatch: pytest.MonkeyPatch, refuses: Any) -> None:
    monkeypatch.setattr(module, "OpCalls", lambda *arguments: FailingPlace(OpCalls(*arguments), refuses))


async def test_an_outcome_that_the_world_does_not_take_is_told_as_lost(
    world: World, committing: tuple[Committing, Told], monkeypatch: pytest.MonkeyPatch
) -> None:
    host, told = committing
    make_failing(monkeypatch, lambda update: b"first" in update.SerializeToString())
    assert await commit(host, make_message(), '{"ok":"first"}') is None
    text = await world.environment(outcomes_path("f", "7")).value("r1")
    failure = read_outcome(str(text)).failure
    assert failure is not None and failure.code == "RESULT_LOST" and "no time" in failure.text
    assert [number for number, _ in told.durable] == [1] and not told.failed


async def test_a_host_that_can_tell_nothing_ends(
    committing: tuple[Committing, Told], monkeypatch: pytest.MonkeyPatch
) -> None:
    host, told = committing
    make_failing(monkeypatch, lambda update: True)
    assert await commit(host, make_message(), '{"ok":1}') is None
    assert [str(error) for error in told.failed] == ["no time"] and not told.durable


async def test_what_cannot_be_known_is_not_taken_for_another_outcome(
    world: World, committing: tuple[Committing, Told], monkeypatch: pytest.MonkeyPatch
) -> None:
    host, _ = committing

    async def fail(*arguments: Any) -> Any:
        raise DeadlineExceededError(ErrorDetails("no time", "DEADLINE"))

    effects = world.writes().set("/place", "v", 1, expect_version=9)
    monkeypatch.setattr(type(world.environment("/")), "get", fail)
    assert isinstance(await commit(host, make_message(), '{"ok":1}', effects), AbortedError)


async def test_effects_that_cannot_be_sent_are_the_calls_failure(
    world: World, committing: tuple[Committing, Told]
) -> None:
    host, told = committing
    effects = world.writes().increment("/place", "n")
    effects.messages.append("not a message")  # type: ignore[arg-type]
    assert isinstance(await commit(host, make_message(), '{"ok":1}', effects), TypeError)
    assert not told.failed
