"""The state that a watch starts from."""

from __future__ import annotations

import asyncio

from env_server.events.filters import Matcher
from env_server.events.initial_state import InitialState
from env_server.events.statistics import WatchState
from env_server.model.changes import EventType, Place
from env_server.model.entries import Entry, StreamEnds
from env_server.model.limits import Limits
from env_server.model.values import NOTHING
from env_server.model.watching import Filter, Snapshot
from tests.contracts.event_stream import check_event_stream, list_events
from tests.unit.env_server.events.worlds import Row, World, drain, step


async def test_state_then_synced_then_what_follows() -> None:
    world = World()
    world.publish(Row(key="a"), Row(key="b"))
    world.publish(Row(key="a"))
    watch = world.open(initial_state=True)
    assert watch.state is WatchState.INITIAL
    world.publish(Row(key="c"))
    state, synced, *rest = await drain(watch)
    assert state.changes is not None
    assert dict(zip(state.changes.keys, state.changes.revisions, strict=True)) == {"a": 3, "b": 2}
    assert set(state.changes.types) == {EventType.INITIAL}
    assert state.through_revision == 0, "nothing resumes from the middle of a state"
    assert (synced.changes, synced.synced_revision, synced.through_revision) == (None, 3, 3)
    assert check_event_stream(rest, world.history, 3) == 4


async def test_a_state_above_the_durable_head_waits_until_it_is_durable() -> None:
    world = World()
    world.apply(Row(key="a"))
    watch = world.open(initial_state=True)
    assert await step(watch) is None
    assert watch.mark() is None
    reader = asyncio.create_task(watch.next(10), name="reader")
    await asyncio.sleep(0)
    world.commit()
    state = await reader
    assert [event.key for event in list_events(state)] == ["a"]
    synced, *rest = await drain(watch)
    assert (synced.synced_revision, rest) == (1, [])
    assert watch.mark() == 1


async def test_path_and_key_select_the_state_and_types_do_not() -> None:
    world = World()
    world.publish(Row(path="/town/a", key="x"), Row(path="/town/a", key="y"), Row(path="/far", key="x"))
    watch = world.open(
        initial_state=True, path_prefix="/town", key_glob="x", types=frozenset({EventType.ENTRY_DELETED})
    )
    state, synced = await drain(watch)
    assert [(event.path, event.key) for event in list_events(state)] == [("/town/a", "x")]
    assert synced.synced_revision == 3


async def test_an_empty_state_is_only_synced() -> None:
    deliveries = await drain(World().open(initial_state=True))
    assert [(delivery.changes, delivery.synced_revision) for delivery in deliveries] == [(None, 0)]


async def test_a_large_state_comes_in_slices_and_long_stretches_without_a_match_are_passed() -> None:
    world = World()
    world.publish(*[Row(path="/far", key=f"f{number}") for number in range(20_000)])
    world.publish(*[Row(key=f"k{number}") for number in range(5_000)])
    deliveries = await drain(world.open(initial_state=True, path_prefix="/town"), 10_000)
    assert [len(list_events(delivery)) for delivery in deliveries] == [4096, 904, 0]
    assert deliveries[-1].synced_revision == 25_000


def test_a_stream_has_no_value_in_the_state() -> None:
    place = Place(1, "/town", {})
    rows = iter([(place, "s", Entry(StreamEnds(1, 4, 10), 3, 1, 3, 3)), (place, "v", Entry(7, 1, 2, 2, 1))])
    initial = InitialState(Snapshot(3, rows), Matcher(Filter(), Limits()))
    changes = initial.take(10)
    assert changes is not None
    assert changes.values == [NOTHING, 7]
    assert changes.versions == [3, 1]
    assert initial.is_done


def test_rows_of_the_state_tell_where_entries_are() -> None:
    place = Place(1, "/town", {})
    rows = iter([(place, "a", Entry(1, 1, 1, 1, 1)), (place, "b", Entry(2, 2, 1, 2, 1, 0, (1.5, 2.0), 1))])
    changes = InitialState(Snapshot(3, rows), Matcher(Filter(), Limits())).take(10)
    assert changes is not None
    assert [changes.told_position(row) for row in (0, 1)] == [(), (1.5, 2.0)]
