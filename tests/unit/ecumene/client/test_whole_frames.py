"""Frames built as a whole: what was refused for now in them is sent again, in the order of each key, and told once."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import ecumene
import pytest
from ecumene import ClientSettings, World
from ecumene.client.errors import Executed
from ecumene.client.stamps import Fence, Stamp
from env_api.v1 import errors_pb2, operations_pb2, session_pb2

from tests.unit.ecumene.client.fake_server import FakeServer, reached

DONE = operations_pb2.OpOutcome()
"""What the fake server takes for: let it have its effect."""


def refusal(delay_ms: int = 1, reason: int = errors_pb2.ERROR_REASON_RATE_LIMITED) -> operations_pb2.OpOutcome:
    outcome = operations_pb2.OpOutcome()
    outcome.error.code, outcome.error.retry_delay_ms = 8, delay_ms
    outcome.error.reason, outcome.error.executed = reason, errors_pb2.EXECUTED_NO  # type: ignore[assignment]
    return outcome


def plan(text: str) -> list[operations_pb2.OpOutcome]:
    """Outcomes of the next ops: "r" refused for now, "x" for good, "." done."""
    kinds = {
        "r": refusal(),
        "x": refusal(reason=errors_pb2.ERROR_REASON_CELL_FULL),
        ".": DONE,
    }
    outcomes = []
    for letter in text:
        outcome = operations_pb2.OpOutcome()
        outcome.CopyFrom(kinds[letter])
        outcomes.append(outcome)
    return outcomes


async def submit(
    world: World, kind: str, keys: Sequence[str], values: Sequence[float]
) -> asyncio.Future[ecumene.FrameResult]:
    """Queue a frame of this kind: from then on it has its place among what the session sends."""
    if kind == "block":
        return await world.frames.submit_block("/", keys, values, return_versions=True)
    frame = ecumene.Frame(return_versions=True)
    for key, value in zip(keys, values, strict=True):
        frame.set("/", key, float(value))
    return await world.frames.submit(frame)


async def send(world: World, kind: str, keys: Sequence[str], values: Sequence[float]) -> ecumene.FrameResult:
    return await (await submit(world, kind, keys, values))


@pytest.mark.parametrize("kind", ["block", "rows"])
async def test_ops_that_were_refused_for_now_are_sent_again_and_told_as_done(
    server: FakeServer, world: World, kind: str
) -> None:
    server.outcomes = plan(".r.xr" + "r.")
    result = await send(world, kind, ["a", "b", "c", "d", "e"], [1, 2, 3, 4, 5])
    assert [(key, value) for key, value in server.log] == [("a", 1), ("c", 3), ("e", 5), ("b", 2)]
    assert (result.ok_count, [index for index, _ in result.failures]) == (4, [3])
    assert [result.revision_of(index) for index in range(5)] == [1, 4, 2, 0, 3]
    assert result.versions == [1, 1, 1, 0, 1]
    assert result.outcome_of(1) == ecumene.Written(4, 1)
    assert isinstance(result.peek(3), ecumene.CellFullError)
    assert (result.revision, result.refusal, result.is_uniform) == (4, None, False)


@pytest.mark.parametrize("kind", ["block", "rows"])
async def test_refusals_are_bounded_and_each_is_told(server: FakeServer, kind: str) -> None:
    settings = ClientSettings(backoff_first_ms=1, backoff_ms_max=2, refusals_max=3)
    async with ecumene.connect(server.address, settings=settings) as world:
        server.outcomes = plan("r.r" + "rr" * 3)
        result = await send(world, kind, ["a", "b", "c"], [1, 2, 3])
        assert len(server.frames()) == 4
        assert [(index, type(error)) for index, error in result.failures] == [
            (0, ecumene.RateLimitedError),
            (2, ecumene.RateLimitedError),
        ]
        assert all(error.executed is Executed.NO for _, error in result.failures)
        assert result.ok_count == 1


@pytest.mark.parametrize("kind", ["block", "rows"])
async def test_of_one_key_the_earlier_op_fails_when_a_later_one_has_passed_it(
    server: FakeServer, world: World, kind: str
) -> None:
    server.outcomes = plan("r.rr")
    result = await send(world, kind, ["a", "a", "b", "b"], [1, 2, 3, 4])
    assert server.log == [("a", 2), ("b", 3), ("b", 4)], "those refused together keep their order"
    assert [(index, type(error)) for index, error in result.failures] == [(0, ecumene.RateLimitedError)]


@pytest.mark.parametrize("kind", ["block", "rows"])
async def test_a_later_frame_on_the_key_bars_the_repetition(server: FakeServer, world: World, kind: str) -> None:
    server.outcomes = plan("rr" + ".")
    first, second = await asyncio.gather(
        send(world, kind, ["a", "b"], [1, 2]), world.frames.send_block("/", ["a"], [3.0])
    )
    assert server.log == [("a", 3), ("b", 2)]
    assert [index for index, _ in first.failures] == [0]
    assert second.ok_count == 1


@pytest.mark.parametrize("kind", ["block", "rows"])
async def test_what_is_sent_while_they_wait_does_not_overtake_them(server: FakeServer, world: World, kind: str) -> None:
    server.outcomes = [refusal(delay_ms=30)]
    first = asyncio.create_task(send(world, kind, ["a"], [1]), name="first")
    await reached(lambda: len(server.frames()) == 1 and world.statistics().outbox.ops_waiting == 1)
    other = asyncio.create_task(send(world, kind, ["b"], [9]), name="other")
    frame = asyncio.create_task(send(world, kind, ["c", "a"], [2, 2]), name="frame")
    await other
    assert server.log == [("b", 9)], "a frame on other keys goes on"
    single = asyncio.create_task(world.environment("/").set("a", 3.0), name="single")
    await asyncio.gather(first, frame, single)
    assert server.log[0] == ("b", 9)
    assert next(value for key, value in server.log if key == "a") == 1.0
    assert first.result().ok_count == 1 and frame.result().ok_count == 2


async def test_a_frame_that_was_refused_as_a_whole_is_sent_again(server: FakeServer, world: World) -> None:
    server.answering = False
    sent = asyncio.create_task(send(world, "block", ["a", "b"], [1, 2]), name="sent")
    await reached(lambda: len(server.frames()) == 1)
    server.log.clear()
    server.entries.clear()
    whole = refusal(reason=errors_pb2.ERROR_REASON_DRAINING)
    whole.index = 2
    server.answering = True
    server.streams[-1].send(answer=session_pb2.FrameAnswer(seq=1, count=2, outcomes=[whole]))
    result = await sent
    assert (result.ok_count, result.failures, result.refusal) == (2, [], None)
    assert server.log == [("a", 1), ("b", 2)]


async def test_a_smaller_block_keeps_what_stood_on_each_op(server: FakeServer, world: World) -> None:
    server.outcomes = plan("r.r")
    world.frames.stamp = Stamp(0, Fence("/locks", "door", 7))
    await world.frames.send_block(
        "/place",
        ["a", "b", "c"],
        [1, 2, 3],
        producers=["p", "q", "r"],
        seqs=[4, 5, 6],
        gate_generation=8,
        actors=["ann"],
        causes=["x", "y", "z"],
        positions=[(0, 1), (2, 3), (4, 5)],
    )
    first, again = server.frames()
    assert (list(again.block.keys), list(again.block.ints)) == (["a", "c"], [1, 3])
    assert (list(again.block.coordinates), again.block.dimensions) == ([0, 1, 4, 5], 2)
    assert (list(again.producers), list(again.producer_seqs), list(again.causes)) == (["p", "r"], [4, 6], ["x", "z"])
    for name in ("paths", "gate_generations", "actors", "fences", "fence"):
        assert getattr(again, name) == getattr(first, name), name
    assert (first.seq, again.seq) == (1, 2)


@pytest.mark.parametrize("kind", ["block", "rows"])
async def test_the_deadline_bounds_the_wait(server: FakeServer, world: World, kind: str) -> None:
    server.outcomes = [refusal(delay_ms=10_000)]
    frame = ecumene.Frame(deadline_ms=2000)
    frame.set("/", "a", 1.0)
    sent = world.frames.send(frame) if kind == "rows" else world.frames.send_block("/", ["a"], [1.0], deadline_ms=2000)
    async with asyncio.timeout(5):
        result = await sent
    assert isinstance(result.failures[0][1], ecumene.RateLimitedError)
    assert len(server.frames()) == 1


@pytest.mark.parametrize("kind", ["block", "rows"])
async def test_a_session_that_ends_meanwhile_ends_the_wait(server: FakeServer, world: World, kind: str) -> None:
    server.outcomes = [DONE, refusal(delay_ms=60_000)]
    sent = asyncio.create_task(send(world, kind, ["a", "b"], [1, 2]), name="sent")
    await reached(lambda: world.statistics().outbox.ops_waiting == 1)
    await world.session.close(0)
    result = await sent
    assert (result.ok_count, type(result.failures[0][1])) == (1, ecumene.ClosedError)


async def test_a_broken_connection_repeats_nothing_that_had_its_effect(server: FakeServer, world: World) -> None:
    server.outcomes = plan(".r")
    server.answering = False
    sent = asyncio.create_task(send(world, "block", ["a", "b"], [1, 2]), name="sent")
    await reached(lambda: len(server.frames()) == 1)
    server.cut()
    await reached(lambda: len(server.streams) == 2)
    server.answering = True
    server.cut()
    assert (await sent).ok_count == 2
    assert server.log == [("a", 1), ("b", 2)]


@pytest.mark.parametrize("seed", range(4))
async def test_random_refusals_keep_the_order_of_each_key(server: FakeServer, world: World, seed: int) -> None:
    chance = random.Random(seed)
    refuse = server.refuse

    def refuse_some(answer: session_pb2.FrameAnswer) -> bool:
        if chance.random() < 0.3:
            server.outcomes = [refusal(delay_ms=chance.choice([0, 1, 3]))]
        return refuse(answer)

    server.refuse = refuse_some  # type: ignore[method-assign]
    number = 0
    told: list[tuple[list[float], asyncio.Future[Any]]] = []
    for _ in range(40):
        count = chance.randrange(1, 8)
        kind = chance.choice(["block", "rows", "single"])
        count = 1 if kind == "single" else count
        keys = [f"k{chance.randrange(8)}" for _ in range(count)]
        values = [float(number + row) for row in range(count)]
        number += count
        if kind == "single":
            told.append((values, asyncio.create_task(world.environment("/").set(keys[0], values[0]), name="set")))
            await asyncio.sleep(0)  # it is issued
        else:
            told.append((values, await submit(world, kind, keys, values)))
        await asyncio.sleep(chance.choice([0, 0.001, 0.003]))
    await asyncio.gather(*(work for _, work in told), return_exceptions=True)
    done: set[float] = set()
    for values, work in told:
        failure = work.exception()
        if failure is not None:
            assert isinstance(failure, ecumene.RateLimitedError)
        elif isinstance(result := work.result(), ecumene.FrameResult):
            failed = {index for index, _ in result.failures}
            assert result.ok_count == len(values) - len(failed)
            done |= {value for index, value in enumerate(values) if index not in failed}
        else:
            done.add(values[0])
    took_effect = [value for _, value in server.log]
    assert len(set(took_effect)) == len(took_effect), "once"
    assert set(took_effect) == done
    for key in server.entries:
        values = [value for name, value in server.log if name == key]
        assert values == sorted(values), key
