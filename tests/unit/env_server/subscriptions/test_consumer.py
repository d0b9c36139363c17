"""What one consumer is delivered, from a cursor that gives what it is told to."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from env_server.clocks.manual_clock import ManualClock
from env_server.model.changes import Changes, Place
from env_server.model.errors import Fenced, NotFound, OutOfRange, Reason, WorldError
from env_server.model.subscriptions import Assignment
from env_server.model.watching import Delivery
from env_server.subscriptions.consumer import Consumer
from env_server.subscriptions.partitions import hash_of

TIMEOUT_MS = 10_000


class FakeCursor:
    """Gives what is put into it, as a watch does."""

    def __init__(self, from_revision: int) -> None:
        self.from_revision = from_revision
        self.steps: asyncio.Queue[Delivery | WorldError] = asyncio.Queue()
        self.asked: list[int] = []
        self.marked: int | None = None
        self.closed = False

    async def next(self, events_max: int) -> Delivery:
        self.asked.append(events_max)
        step = await self.steps.get()
        if isinstance(step, WorldError):
            raise step
        return step

    def mark(self) -> int | None:
        return self.marked

    def reached(self) -> int:
        return self.marked or self.from_revision - 1

    def close(self) -> None:
        self.closed = True
        self.steps.put_nowait(NotFound(Reason.WATCH_NOT_FOUND, watch="1"))


class Held:
    """A consumer with its cursors."""

    def __init__(self, outstanding_max: int = 10, cursors: Sequence[int] = (7,), mine: tuple[int, ...] = (0,)) -> None:
        self.clock = ManualClock()
        self.cursors: list[FakeCursor] = []
        self.passed = 0
        self.consumer = Consumer("c", outstanding_max, self.clock, TIMEOUT_MS, self._open, self._deadline_passed)
        self.consumer.assign(1, mine, cursors)
        self.consumer.tell(1)

    def _open(self, from_revision: int) -> FakeCursor:
        self.cursors.append(FakeCursor(from_revision))
        return self.cursors[-1]

    def _deadline_passed(self, consumer: Consumer) -> None:
        assert consumer is self.consumer
        self.passed += 1

    def put(self, *revisions: int) -> None:
        self.cursors[-1].steps.put_nowait(make_step(*revisions))

    async def take(self) -> Assignment | Delivery | None:
        """The next step, None when there is none at hand."""
        step = asyncio.ensure_future(self.consumer.next())
        for _ in range(10):
            await asyncio.sleep(0)
        if step.done():
            return step.result()
        step.cancel()
        await asyncio.gather(step, return_exceptions=True)
        return None


def make_step(*revisions: int) -> Delivery:
    """Events of these revisions, of as many keys."""
    changes = Changes(1, revisions[0] - 1, revisions[-1])
    changes.places = [Place(1, "/", {})]
    changes.revisions = list(revisions)
    changes.path = [0] * len(revisions)
    changes.keys = [f"k{row}" for row in range(len(revisions))]
    return Delivery(changes, None, revisions[-1])


async def test_the_assignment_comes_first_and_delivery_goes_on_behind_the_cursor() -> None:
    held = Held()
    assert await held.take() == Assignment(1, (0,), 7)
    assert held.cursors[0].from_revision == 8
    held.put(8, 9)
    step = await held.take()
    assert isinstance(step, Delivery)
    assert step.through_revision == held.consumer.delivered == 9
    assert held.consumer.outstanding_events == 2


async def test_nothing_is_delivered_before_the_assignment_is_told() -> None:
    held = Held()
    held.consumer.assign(2, (0,), [7])
    held.consumer.tell(1)  # of the assignment before
    assert await held.take() is None
    assert held.consumer.mark() is None
    held.consumer.tell(2)
    assert await held.take() == Assignment(2, (0,), 7)


async def test_as_much_is_outstanding_as_was_asked_for() -> None:
    held = Held(outstanding_max=3)
    await held.take()
    held.put(8, 9)
    await held.take()
    held.put(10, 11)
    assert await held.take() is None, "four would be outstanding"
    assert held.cursors[0].asked == [3, 1]
    held.consumer.acknowledged = 8
    held.consumer.wake()
    step = await held.take()
    assert isinstance(step, Delivery)
    assert step.through_revision == 11
    assert await held.take() is None
    assert held.cursors[0].asked == [3, 1], "no room: nothing more is read"


async def test_a_revision_larger_than_all_room_goes_alone() -> None:
    held = Held(outstanding_max=2)
    await held.take()
    held.put(8, 8, 8, 8)
    assert isinstance(await held.take(), Delivery)
    held.put(9)
    assert await held.take() is None
    held.consumer.acknowledged = 8
    assert isinstance(await held.take(), Delivery)
    held.put(10, 10, 10)
    assert await held.take() is None, "not beside another one"
    held.consumer.acknowledged = 9
    assert isinstance(await held.take(), Delivery)


async def test_only_its_partitions_and_only_above_their_cursors() -> None:
    count = 4
    partitions = [hash_of("/", f"k{row}") % count for row in range(40)]
    held = Held(outstanding_max=100, cursors=[7, 20, 0, 0], mine=(0, 1))
    assert await held.take() == Assignment(1, (0, 1), 7)
    held.put(*range(8, 48))
    step = await held.take()
    assert isinstance(step, Delivery)
    assert step.rows == [row for row, mine in enumerate(partitions) if mine == 0 or (mine == 1 and row + 8 > 20)]


async def test_what_does_not_concern_it_moves_its_mark() -> None:
    held = Held(cursors=[7, 7], mine=(1,))
    await held.take()
    mine = hash_of("/", "k0") % 2
    assert mine in (0, 1)
    held = Held(cursors=[7, 7], mine=(1 - mine,))
    await held.take()
    held.put(9)
    assert await held.take() is None
    assert (held.consumer.delivered, held.consumer.mark(), held.consumer.delivered) == (7, 9, 9)
    held.cursors[0].marked = 30
    assert held.consumer.mark() == 30
    held.cursors[0].steps.put_nowait(Delivery(None, None, 40))
    step = await held.take()
    assert step == Delivery(None, None, 40)
    assert held.consumer.delivered == 40
    assert held.consumer.outstanding_events == 0


async def test_no_mark_passes_what_waits_for_room() -> None:
    held = Held(outstanding_max=1)
    await held.take()
    held.put(8)
    await held.take()
    held.consumer.acknowledged = 8
    held.put(9, 9)
    assert isinstance(await held.take(), Delivery)
    held.put(12)
    held.consumer.acknowledged = 9
    assert isinstance(await held.take(), Delivery)
    held = Held(outstanding_max=2)
    await held.take()
    held.put(8)
    await held.take()
    held.put(12, 13)
    assert await held.take() is None
    held.cursors[0].marked = 99
    assert held.consumer.mark() == 8


async def test_a_new_assignment_begins_anew_also_while_somebody_waits() -> None:
    held = Held()
    await held.take()
    held.put(8)
    await held.take()
    reading = asyncio.ensure_future(held.consumer.next())
    await asyncio.sleep(0)
    held.consumer.assign(2, (0,), [7])
    assert held.cursors[0].closed
    assert held.consumer.outstanding_events == 0
    held.consumer.tell(2)
    assert await reading == Assignment(2, (0,), 7)
    assert held.cursors[1].from_revision == 8


async def test_one_that_stands_by_waits_for_partitions() -> None:
    held = Held(mine=())
    assert await held.take() == Assignment(1, (), 0)
    assert held.cursors == []
    assert await held.take() is None
    held.consumer.assign(2, (0,), [7])
    held.consumer.tell(2)
    assert await held.take() == Assignment(2, (0,), 7)


async def test_the_end_is_told_at_once_and_again() -> None:
    held = Held()
    await held.take()
    reading = asyncio.ensure_future(held.consumer.next())
    await asyncio.sleep(0)
    held.consumer.end(Fenced("replaced"))
    with pytest.raises(Fenced):
        await reading
    held.consumer.end(NotFound(Reason.SUBSCRIPTION_NOT_FOUND, subscription="s"))
    held.consumer.tell(1)
    with pytest.raises(Fenced):
        await held.consumer.next()


async def test_a_cursor_that_ends_by_itself_ends_it() -> None:
    held = Held()
    await held.take()
    held.cursors[0].steps.put_nowait(OutOfRange(Reason.REVISION_COMPACTED, "gone"))
    with pytest.raises(OutOfRange):
        await held.consumer.next()


async def test_the_deadline_runs_from_the_first_that_is_outstanding() -> None:
    held = Held()
    await held.take()
    held.clock.advance(60)
    held.put(8)
    await held.take()
    held.clock.advance(6)
    held.put(9)
    await held.take()
    held.clock.advance(3.9)
    assert held.passed == 0, "later events do not give the time anew"
    held.clock.advance(0.2)
    assert held.passed == 1


async def test_a_cancelled_reader_loses_nothing() -> None:
    held = Held()
    await held.take()
    for _ in range(3):
        assert await held.take() is None
    held.put(8)
    held.put(9)
    steps = [await held.take(), await held.take()]
    assert [step.through_revision for step in steps if isinstance(step, Delivery)] == [8, 9]
