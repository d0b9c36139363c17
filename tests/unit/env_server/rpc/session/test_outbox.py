"""The outbox: in order, bounded, and over when it is over."""

import asyncio

import pytest

from env_server.model.errors import Reason, Unavailable
from env_server.model.frames import Answer
from env_server.rpc.session.outbox import EVENTS_BYTES_MAX, REPLIES_MAX, Events, Outbox


async def test_items_come_out_in_order() -> None:
    outbox = Outbox()
    answer = Answer(1, 1, 0)
    outbox.put(answer)
    await outbox.put_events(b"events")
    outbox.put(b"reply")
    assert [await outbox.take() for _ in range(3)] == [answer, Events(b"events"), b"reply"]


async def test_a_taker_waits_for_the_next_item() -> None:
    outbox = Outbox()
    taker = asyncio.create_task(outbox.take(), name="taker")
    await asyncio.sleep(0)
    outbox.put(b"x")
    outbox.put(b"y")
    assert await taker == b"x"
    assert await outbox.take() == b"y"


async def test_events_wait_for_room_in_order() -> None:
    outbox = Outbox()
    await outbox.put_events(b"0" * EVENTS_BYTES_MAX)
    putters = [asyncio.create_task(outbox.put_events(name), name="putter") for name in (b"a", b"b", b"c")]
    await asyncio.sleep(0.01)
    assert len(outbox) == 1
    outbox.put(b"reply")  # replies do not wait behind events
    assert len(outbox) == 2
    await outbox.take()
    await asyncio.gather(*putters)
    items = [await outbox.take() for _ in range(4)]
    assert items == [b"reply", Events(b"a"), Events(b"b"), Events(b"c")]


async def test_replies_are_bounded_by_a_reader_that_waits() -> None:
    outbox = Outbox()
    for _ in range(REPLIES_MAX):
        outbox.put(b"reply")
    reader = asyncio.create_task(outbox.wait_until_calm(), name="reader")
    await asyncio.sleep(0.01)
    assert not reader.done()
    await outbox.take()
    await reader


async def test_an_end_lets_what_is_waiting_out() -> None:
    outbox = Outbox()
    outbox.put(b"x")
    outbox.end()
    outbox.put(b"y")
    await outbox.put_events(b"z")
    assert await outbox.take() == b"x"
    assert await outbox.take() is None


async def test_an_end_with_an_error_drops_what_is_waiting_and_frees_who_waits() -> None:
    outbox = Outbox()
    await outbox.put_events(b"0" * EVENTS_BYTES_MAX)
    putters = [asyncio.create_task(outbox.put_events(b"a"), name="putter") for _ in range(3)]
    await asyncio.sleep(0.01)
    outbox.end(Unavailable(Reason.DRAINING, "stopping"))
    outbox.end()
    await asyncio.gather(*putters)
    with pytest.raises(Unavailable):
        await outbox.take()


async def test_an_end_wakes_a_waiting_taker() -> None:
    outbox = Outbox()
    taker = asyncio.create_task(outbox.take(), name="taker")
    await asyncio.sleep(0)
    outbox.end()
    assert await taker is None
