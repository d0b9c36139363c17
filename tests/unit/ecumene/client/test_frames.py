"""Whole frames: pipelined, bounded, in order with everything else of the session."""

from __future__ import annotations

import asyncio

import ecumene
import pytest
from ecumene import World
from env_api.v1 import session_pb2

from tests.unit.ecumene.client.fake_server import FakeServer, reached


async def test_a_block_is_one_frame_and_its_result_says_what_each_op_did(server: FakeServer, world: World) -> None:
    result = await world.frames.send_block("/", ["a", "b", "a"], [1.0, 2.0, 3.0], return_versions=True)
    assert (result.count, result.ok_count, result.failures) == (3, 3, [])
    assert result.versions == [1, 1, 2]
    assert [result.revision_of(index) for index in range(3)] == [1, 2, 3]
    assert len(server.frames()) == 1


async def test_rows_of_any_kind_travel_in_one_frame(server: FakeServer, world: World) -> None:
    frame = world.frame()
    assert frame.set("/", "a", 1.0) == 0
    assert frame.set("/", "bad", 1.0, expect_version=4) == 1
    assert frame.get("/", "a") == 2
    result = await world.frames.send(frame)
    assert [(index, type(error)) for index, error in result.failures] == [(1, ecumene.PreconditionFailedError)]
    read = result.outcome_of(2)
    assert isinstance(read, ecumene.Entry)
    assert read.version == 1
    with pytest.raises(ValueError, match="once"):
        await world.frames.send(frame)


async def test_frames_and_single_ops_keep_the_order_in_which_they_were_issued(server: FakeServer, world: World) -> None:
    room = world.environment("/")
    writes = [
        room.set("a", 1.0),
        world.frames.send_block("/", ["b"], [1.0]),
        room.set("c", 1.0),
        room.set("d", 1.0),
        world.frames.send_block("/", ["e"], [1.0]),
    ]
    await asyncio.gather(*writes)
    assert [key for key, _ in server.log] == ["a", "b", "c", "d", "e"]
    assert [frame.seq for frame in server.frames()] == [1, 2, 3, 4]


async def test_sending_waits_while_the_server_has_its_fill(server: FakeServer, world: World) -> None:
    server.answering = False
    answers = [await world.frames.submit_block("/", [f"k{number}"], [0.0]) for number in range(8)]
    ninth = asyncio.create_task(world.frames.submit_block("/", ["k8"], [0.0]), name="ninth")
    await reached(lambda: len(server.log) == 8)
    assert not ninth.done()
    server.streams[-1].send(answer=server.answers["tester", 1])
    answers.append(await ninth)
    assert not answers[1].done()
    await reached(lambda: len(server.log) == 9)
    server.answering = True
    server.cut()
    results = await asyncio.gather(*answers)
    assert [result.revision_of(0) for result in results] == list(range(1, 10))
    assert len(server.log) == 9


async def test_a_cancelled_wait_takes_neither_the_frame_nor_its_place_back(server: FakeServer, world: World) -> None:
    server.answering = False
    for number in range(8):
        (await world.frames.submit_block("/", [f"k{number}"], [0.0])).cancel()
    ninth = asyncio.create_task(world.frames.send_block("/", ["k8"], [0.0]), name="ninth")
    await reached(lambda: len(server.log) == 8)
    assert world.statistics().outbox.frames_in_flight == 8
    server.answering = True
    server.cut()
    assert (await ninth).revision_of(0) == 9


async def test_a_frame_with_too_many_ops_is_refused_here_and_takes_no_number(server: FakeServer, world: World) -> None:
    with pytest.raises(ecumene.LimitExceededError) as caught:
        await world.frames.send_block("/", ["k"] * 101, [0.0] * 101)
    assert (caught.value.limit, caught.value.max, caught.value.actual) == ("frame_ops_max", 100, 101)
    with pytest.raises(ecumene.LimitExceededError, match="frame_bytes_max"):
        await world.frames.send_block("/", ["k"], ["x" * (1 << 20)])
    await world.frames.send_block("/", ["k"], [0.0])
    assert [frame.seq for frame in server.frames()] == [1]


async def test_ops_that_waited_are_answered_by_later_parts(server: FakeServer, world: World) -> None:
    server.answering = False
    room = world.environment("/")
    quick = asyncio.create_task(room.set("a", 1.0), name="quick")
    slow = asyncio.create_task(room.set("b", 1.0), name="slow")
    await reached(lambda: len(server.log) == 2)
    stream = server.streams[-1]
    stream.send(answer=session_pb2.FrameAnswer(seq=1, count=2, base_revision=0, pending=[1], versions=[1, 0]))
    assert await quick == ecumene.Written(revision=1, version=1)
    assert not slow.done()
    late = session_pb2.FrameAnswer(seq=1, count=2, part=1)
    late.outcomes.add(index=1).written.revision = 8
    stream.send(answer=late)
    assert (await slow).revision == 8
    assert world.statistics().outbox.frames_in_flight == 0


async def test_a_frame_resolves_when_all_parts_are_there(server: FakeServer, world: World) -> None:
    server.answering = False
    future = await world.frames.submit_block("/", ["a", "b", "c"], [1.0, 2.0, 3.0])
    await reached(lambda: len(server.log) == 3)
    stream = server.streams[-1]
    stream.send(answer=session_pb2.FrameAnswer(seq=1, count=3, pending=[2], more=True))
    stream.send(answer=session_pb2.FrameAnswer(seq=1, count=3))
    stream.send(pong=session_pb2.Pong(revision=77))
    await reached(lambda: world.revision == 77)
    assert not future.done()
    stream.send(answer=session_pb2.FrameAnswer(seq=1, count=3, part=1))
    result = await future
    assert [result.revision_of(index) for index in range(3)] == [1, 2, 0]
