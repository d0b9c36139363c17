"""What threads and the garbage collector leave for a caller's loop."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from ecumene.workflows.calls import Call
from ecumene.workflows.outgoing import Outgoing


class Way:
    """What is sent and let go, in order; with `late`, a thread adds a call as others are on their way."""

    def __init__(self, late: int = 0) -> None:
        self.sent: list[int] = []
        self._late = late
        self.outgoing = Outgoing(asyncio.get_running_loop(), cast(Any, self.sent.append), self._let_go)

    def add(self, number: int) -> None:
        self.outgoing.add(cast(Call, number))

    def _let_go(self, numbers: list[int]) -> None:
        if self._late:
            self.add(self._late)


async def test_a_flush_waits_until_calls_can_be_sent() -> None:
    way = Way()
    way.add(1)
    flushing = asyncio.create_task(way.outgoing.flush(), name="flush")
    await asyncio.sleep(0)
    assert not flushing.done()
    way.outgoing.open()
    await flushing
    assert way.sent == [1]


async def test_a_flush_does_not_wait_for_what_is_added_behind_it() -> None:
    way = Way(late=2)
    way.outgoing.open()
    way.add(1)
    way.outgoing.drop(9)
    async with asyncio.timeout(10):
        await way.outgoing.flush()
    assert way.sent[0] == 1
    await asyncio.sleep(0)
    assert way.sent == [1, 2]


async def test_a_flush_ends_with_what_it_waits_for() -> None:
    way = Way()
    way.add(1)
    flushing = asyncio.create_task(way.outgoing.flush(), name="flush")
    await asyncio.sleep(0)
    way.outgoing.clear()
    way.outgoing.end_flushing()
    await flushing
    assert way.sent == []
