"""Cutting and conflating."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from env_server.events.portions import Portion, conflate
from env_server.model.changes import Changes, EventType
from env_server.model.entries import COUNTER, MEMBER, VALUE
from env_server.model.environments import Gate
from env_server.model.operations import BeginGeneration, Code, EnvironmentUpdate, Placed, RegisterEntry
from env_server.model.spaces import Box, Grid, Proximity, Region, Space
from env_server.model.watching import Delivery
from tests.contracts.event_stream import list_events
from tests.engine import Op, Stand, add, drop, new_environment, put
from tests.leased import granted, hold, join, revoke
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
    last = {(event.path, event.key, event.type): event for event in world.history}
    for (path, key, type_), event in list(last.items()):
        gone = last.get((path, key, EventType.ENTRY_DELETED))
        if type_ == EventType.ENTRY_SET and gone is not None and gone.version > event.version:
            del last[path, key, type_]
    assert {(event.path, event.key, event.type): event for event in kept} == last


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


def test_moves_and_values_do_not_replace_each_other_and_a_deletion_replaces_both_and_stays() -> None:
    value, move = Row(), Row(type=EventType.ENTRY_MOVED)
    gone, joined = Row(type=EventType.ENTRY_DELETED), Row(type=EventType.MEMBER_JOINED)
    assert told(move, value, move, value) == [(8, "a", ""), (4, "a", "")]
    assert told(value, move, gone) == [(7, "a", "")]
    assert told(move, gone, value) == [(7, "a", ""), (4, "a", "")], "what was created anew is nowhere"
    assert told(gone, value, move, gone, value) == [(7, "a", ""), (4, "a", "")]
    assert told(value, joined, value, value) == [(13, "a", ""), (4, "a", "")], "it is a member still"
    assert told(joined, gone._replace(type=EventType.MEMBER_EXPIRED), gone, value) == [(7, "a", ""), (4, "a", "")]


Picture = dict[tuple[str, str], Any]
"""What a reader of events knows: of entries kind, value and place; of all else the last event."""


def see(picture: Picture, changes: Changes, row: int) -> None:
    """Takes over one event, as any reader would."""
    path, key, type_ = changes.places[changes.path[row]].path, changes.keys[row], EventType(changes.types[row])
    value = changes.values[row]
    name, entry = (path, f"entry {key}"), picture.get((path, f"entry {key}"), ("", None, ()))
    if type_ in (EventType.ENTRY_SET, EventType.ENTRY_INCREMENTED):
        kind = "counter" if type_ == EventType.ENTRY_INCREMENTED else "value"
        picture[name] = entry[0] or kind, value, entry[2]
    elif type_ == EventType.MEMBER_JOINED:
        picture[name] = "member", value, ()
    elif type_ == EventType.ENTRY_MOVED:
        picture[name] = *entry[:2], value
    elif type_ in (EventType.ENTRY_DELETED, EventType.MEMBER_LEFT, EventType.MEMBER_EXPIRED):
        picture.pop(name, None)
    elif type_ in (EventType.REGION_ENTERED, EventType.PROXIMITY_ENTERED):
        picture[path, f"inside {key} {value.text!r}"] = True
    elif type_ in (EventType.REGION_LEFT, EventType.PROXIMITY_LEFT):
        picture.pop((path, f"inside {key} {value.text!r}"), None)
    elif type_ == EventType.ENVIRONMENT_DELETED:
        for gone in [one for one in picture if one[0] == path]:
            del picture[gone]
    else:
        picture[path, f"{type_.name.split('_')[0]} {key}"] = type_, value


def live(stand: Stand, chance: random.Random, leases: list[int]) -> Op:
    """Something that happens to one of few entries of one of two environments."""
    path, key = chance.choice(PATHS), chance.choice("abc")
    place = (float(chance.randrange(3)), float(chance.randrange(3)))
    lease = chance.choice(leases)
    return chance.choice(
        [
            put(path, key, chance.randrange(9)),
            add(path, key, 1),
            drop(path, key),
            drop(path, key),
            Op(path, key, Code.MOVE, place),
            Op(path, key, Code.MOVE, ()),
            Op(path, key, Code.PLACE, Placed(chance.randrange(9), place)),
            join(path, key, lease, "here"),
            Op(path, key, Code.REGISTER_ENTRY, RegisterEntry(MEMBER, "here", lease=lease, position=place)),
            hold(path, key, lease, kind=chance.choice((VALUE, COUNTER))),
            *[drop(path, "") if chance.random() < 0.2 else new_environment(path, space=ROOM, gates=(Gate("a"),))] * 2,
            Op(path, "", Code.UPDATE_ENVIRONMENT, EnvironmentUpdate(begin=BeginGeneration("a"))),
        ]
    )


PATHS = ("/one", "/two")
ROOM = Space(Grid(3, 3), (Region("r", Box((0.0, 0.0), (1.0, 1.0))),), (Proximity("p", 1.0),))


def test_the_picture_from_conflated_events_is_that_from_all_of_them(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(20):
        stand = Stand()
        stand.done(*(new_environment(path, space=ROOM, gates=(Gate("a"),)) for path in PATHS))
        for _ in range(chance.choice((10, 60))):
            leases = [granted(stand), granted(stand)]
            stand.do(*(live(stand, chance, leases) for _ in range(chance.choice((1, 2, 8)))))
            if chance.random() < 0.3:
                stand.do(revoke(chance.choice(leases)))
                stand.clock.advance(1.0)
        groups = stand.records()
        every: Picture = {}
        few: Picture = {}
        while groups:
            some = [groups.pop(0) for _ in range(min(len(groups), chance.choice((1, 5, 1000))))]
            portions, left_out = conflate([(changes, None) for changes in some])
            told = 0
            for portion in reversed(portions):
                rows, _ = portion.take(1 << 30)
                for row in range(len(portion.changes)) if rows is None else rows:
                    told += 1
                    see(few, portion.changes, row)
            for changes in some:
                for row in range(len(changes)):
                    see(every, changes, row)
            assert few == every
            assert told + left_out == sum(map(len, some))


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
