"""Cutting and conflating."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from env_server.events.portions import Portion, conflate
from env_server.model.changes import EventType
from env_server.model.watching import Delivery
from tests.contracts.event_stream import list_events
from tests.unit.env_server.events.oracle import CHANGES
from tests.unit.env_server.events.worlds import Row, World, drain, step


@given(st.lists(CHANGES, min_size=1, max_size=20), st.data())
def test_parts_are_whole_revisions_and_together_the_portion(rows: list[Row], data: st.DataObject) -> None:
    changes = World().apply(*rows)
    wanted = data.draw(st.none() | st.sets(st.integers(0, len(rows) - 1), min_size=1).map(sorted))
    portion = Portion(changes, wanted)
    taken: list[int] = []
    while not portion.is_done:
        events_max = data.draw(st.integers(1, 6))
        part, through = portion.take(events_max)
        part = list(range(len(rows))) if part is None else part
        revisions = {changes.revisions[row] for row in part}
        assert len(part) <= events_max or len(revisions) == 1
        assert not taken or changes.revisions[taken[-1]] < min(revisions)
        taken += part
        assert all(changes.revisions[row] <= through for row in taken)
        owed = [row for row in (wanted or range(len(rows))) if row not in taken]
        assert all(changes.revisions[row] > through for row in owed)
    assert taken == (list(range(len(rows))) if wanted is None else wanted)
    assert through == changes.last_revision


@given(st.lists(st.lists(CHANGES, min_size=1, max_size=8), min_size=1, max_size=5))
def test_conflation_keeps_the_last_of_each_key_in_order(groups: list[list[Row]]) -> None:
    world = World()
    portions, left_out = conflate([(world.apply(*rows), None) for rows in groups])
    kept = [
        event
        for portion in reversed(portions)
        for event in list_events(Delivery(portion.changes, portion.take(99)[0], 0))
    ]
    assert [event.version for event in kept] == sorted(event.version for event in kept)
    assert len(kept) + left_out == len(world.history)
    environments = (EventType.ENVIRONMENT_UPDATED,)
    last = {(event.path, event.key, event.type in environments): event for event in world.history}
    assert {(event.path, event.key, event.type in environments): event for event in kept} == last


def test_an_entry_and_a_gate_of_one_name_do_not_replace_each_other() -> None:
    world = World()
    groups = [world.apply(Row(key="n")), world.apply(Row(key="n", type=EventType.GATE_OPENED))]
    portions, left_out = conflate([(changes, None) for changes in groups])
    assert (len(portions), left_out) == (2, 0)
    assert not any(portion.conflated for portion in portions)


def told(*rows: Row) -> list[tuple[int, str, str]]:
    """What is left of rows, each a group of its own: type, key, region."""
    portions, _ = conflate([(World().apply(row), None) for row in rows])
    return [
        (changes.types[0], changes.keys[0], getattr(changes.values[0], "document", {}).get("region", ""))
        for changes in (portion.changes for portion in reversed(portions))
    ]


def test_moves_and_values_do_not_replace_each_other_and_a_deletion_replaces_both() -> None:
    value, move = Row(), Row(type=EventType.ENTRY_MOVED)
    gone = Row(type=EventType.ENTRY_DELETED)
    assert told(move, value, move, value) == [(8, "a", ""), (4, "a", "")]
    assert told(value, move, gone) == [(7, "a", "")]
    assert told(move, gone, value) == [(4, "a", "")], "what was created anew is nowhere"
    assert told(gone, value, move) == [(4, "a", ""), (8, "a", "")]


def test_only_crossings_of_one_border_replace_each_other() -> None:
    entered, left = Row(type=EventType.REGION_ENTERED, region="r"), Row(type=EventType.REGION_LEFT, region="r")
    assert told(entered, entered._replace(region="s"), left) == [(17, "a", "s"), (18, "a", "r")]


async def test_a_conflating_watch_gets_the_latest_only_when_it_is_behind() -> None:
    world = World(ring_groups=10_000)
    watch = world.open(conflate=True)
    world.publish(Row(key="a"), Row(key="a"))
    plain = await step(watch)
    assert plain is not None and not plain.conflated
    assert len(list_events(plain)) == 2
    for number in range(2000):  # beyond what a live watch notes
        world.publish(Row(key=f"k{number % 3}"))
    deliveries = await drain(watch)
    assert all(delivery.conflated for delivery in deliveries)
    assert sum(len(list_events(delivery)) for delivery in deliveries) < 50
    assert [event.revision for event in list_events(deliveries[-1])] == [2002]
    assert deliveries[-1].through_revision == watch.mark() == 2002
    assert watch.statistics().conflated_events > 1900
