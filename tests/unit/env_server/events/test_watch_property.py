"""Whatever happens around it, what a watch delivers equals the filtered history from its start."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from env_server.events.watch import Watch
from env_server.model.changes import EventType
from env_server.model.errors import OutOfRange, Reason
from env_server.model.watching import Delivery, Filter
from tests.contracts.event_stream import Seen, check_event_stream, list_events
from tests.unit.env_server.events.oracle import FILTERS, ROWS, accepts
from tests.unit.env_server.events.worlds import World, drain, step

PUBLISH = st.tuples(st.just("publish"), st.lists(ROWS, min_size=1, max_size=6))
OPEN = st.tuples(st.just("open"), FILTERS, st.integers(-3, 8), st.booleans())
READ = st.tuples(st.just("read"), st.integers(0, 7), st.integers(1, 4), st.integers(1, 6))
"""Watch, events, loop steps until the reader is cancelled."""
TRIM = st.tuples(st.just("trim"), st.integers(0, 6))
STALL = st.tuples(st.just("stall"), st.booleans())
ACTIONS = st.lists(st.one_of(PUBLISH, PUBLISH, READ, READ, READ, OPEN, TRIM, STALL), max_size=60)


class Reader:
    """One watch, what it delivered and what it ought to."""

    def __init__(self, world: World, asked: Filter, offset: int, initial_state: bool) -> None:
        start = 0 if offset < 0 else max(0, world.hub.head + 3 - offset)
        self.world = world
        self.asked = asked
        self.after = start - 1 if start else world.hub.head
        self.initial_state = initial_state
        self.state = dict(world.state)
        self.deliveries: list[Delivery] = []
        self.is_over = False
        parts = {name: getattr(asked, name) for name in Filter.__slots__}
        self.watch: Watch = world.open(start, initial_state=initial_state, **parts)
        if initial_state:
            self.after = world.applied

    async def read(self, events_max: int, loop_steps: int) -> bool:
        """Whether there was a step."""
        if self.is_over:
            return False
        try:
            delivery = await step(self.watch, events_max, loop_steps)
        except OutOfRange as error:
            self.is_over = True
            self.check_end(error)
            return False
        if delivery is not None:
            self.deliveries.append(delivery)
        return delivery is not None

    def check_end(self, error: OutOfRange) -> None:
        assert error.reason is Reason.REVISION_COMPACTED
        asked, compacted = int(error.metadata["asked"]), int(error.metadata["compacted"])
        assert self.check() < asked < compacted <= self.world.find_first_revision()

    def check(self) -> int:
        """Holds all deliveries against the definition; returns the revision that they reach."""
        deliveries = self.deliveries
        if self.initial_state:
            synced = [number for number, delivery in enumerate(deliveries) if delivery.synced_revision]
            if not synced:
                assert all(delivery.through_revision == 0 for delivery in deliveries)
                return self.after
            self.check_state([event.version for delivery in deliveries[: synced[0]] for event in list_events(delivery)])
            assert len(synced) == 1
            assert deliveries[synced[0]].synced_revision == self.after
            deliveries = deliveries[synced[0] + 1 :]
        keep = self.world.keep(lambda row: accepts(self.asked, row))
        return check_event_stream(deliveries, self.world.history, self.after, keep)

    def check_state(self, versions: list[int]) -> None:
        matcher = self.watch.matcher
        assert sorted(versions) == sorted(
            entry.version
            for (_, key), (place, entry) in self.state.items()
            if matcher.matches_place(place) and matcher.matches_key(key)
        )


async def play(ring_groups: int, pending_groups_max: int, actions: list[Any]) -> None:
    world = World(ring_groups=ring_groups, pending_groups_max=pending_groups_max)
    world.publish()
    readers: list[Reader] = []
    for name, *arguments in actions:
        if name == "publish":
            world.apply(*arguments[0])
            if len(world.unpublished) > 1 or len(arguments[0]) % 2:  # else applied, not yet durable
                world.commit()
        elif name == "open" and len(readers) < 8:
            readers.append(Reader(world, *arguments))
        elif name == "read" and readers:
            number, events_max, loop_steps = arguments
            await readers[number % len(readers)].read(events_max, loop_steps)
        elif name == "trim":
            world.trim(world.hub.head + 3 - arguments[0])
        elif name == "stall" and arguments[0]:
            world.log_is_open.clear()
        elif name == "stall":
            world.log_is_open.set()
    world.commit()
    world.log_is_open.set()
    for reader in readers:
        while await reader.read(3, 200):
            pass
        if not reader.is_over:
            assert reader.check() <= max(world.hub.head, reader.after)
            mark = reader.watch.mark()
            assert mark == world.hub.head or (mark is None and world.hub.head < reader.after)
    assert world.hub.statistics().backlog_bytes == 0


@settings(max_examples=400, deadline=None)
@given(ring_groups=st.integers(1, 12), pending_groups_max=st.integers(1, 4), actions=ACTIONS)
def test_a_watch_delivers_the_filtered_history_from_its_start(
    ring_groups: int, pending_groups_max: int, actions: list[Any]
) -> None:
    asyncio.run(play(ring_groups, pending_groups_max, actions))


@settings(max_examples=150, deadline=None)
@given(
    ring_groups=st.integers(1, 12),
    pending_groups_max=st.integers(1, 4),
    asked=FILTERS,
    actions=st.lists(st.one_of(PUBLISH, PUBLISH, READ), max_size=30),
)
def test_a_conflating_watch_ends_up_with_the_last_event_of_each_key(
    ring_groups: int, pending_groups_max: int, asked: Filter, actions: list[Any]
) -> None:
    asyncio.run(play_conflating(ring_groups, pending_groups_max, asked, actions))


async def play_conflating(ring_groups: int, pending_groups_max: int, asked: Filter, actions: list[Any]) -> None:
    world = World(ring_groups=ring_groups, pending_groups_max=pending_groups_max)
    watch = world.open(conflate=True, **{name: getattr(asked, name) for name in Filter.__slots__})
    deliveries: list[Delivery] = []
    for name, *arguments in actions:
        if name == "publish":
            world.publish(*arguments[0])
        elif (delivery := await step(watch, arguments[1], arguments[2])) is not None:
            deliveries.append(delivery)
    deliveries += await drain(watch, 3)
    assert watch.mark() == world.hub.head
    keep = world.keep(lambda row: accepts(asked, row))
    owed = [event for event in world.history if keep(event)]
    got = [event for delivery in deliveries for event in list_events(delivery)]
    assert [event.version for event in got] == sorted({event.version for event in got}), "in order, without duplicates"
    assert set(got) <= set(owed)
    assert {identify(event): event for event in got} == {identify(event): event for event in owed}
    assert len(got) + watch.statistics().conflated_events == len(owed)
    assert len(got) == len(owed) or any(delivery.conflated for delivery in deliveries)


def identify(event: Seen) -> tuple[str, str, bool]:
    """What later events replace earlier ones of."""
    return event.path, event.key, event.type == EventType.ENVIRONMENT_UPDATED
