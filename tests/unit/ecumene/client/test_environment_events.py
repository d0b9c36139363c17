"""What a client hears of environments and aggregates, and what the command line shows of it."""

from __future__ import annotations

import pytest
from ecumene import Aggregate, AggregateFunction, EventType, Gate, Grant, World
from ecumene.cli.deeds import tell_deed
from ecumene.cli.env_output import event_document, show_event
from ecumene.client.event_batch import Event

from tests.services import ServerProcess


async def hear(world: World, count: int, types: frozenset[EventType]) -> list[Event]:
    """The first events of these types."""
    found: list[Event] = []
    async for event in world.watch(from_revision=1):
        if event.type in types and event.path == "/club":
            found.append(event)
            if len(found) == count:
                break
    return found


async def test_an_environment_is_told_whole_with_what_was_changed(
    real_world: World, real_server: ServerProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    club = real_world.environment("/club")
    await club.register(
        labels={"floor": "2"}, config={"seats": 9}, gates=[Gate("g", deadline_ms=0)], grants=[Grant("/secret")]
    )
    await club.change(
        set_labels={"floor": "3"}, set_aggregates=[Aggregate("n", AggregateFunction.COUNT)], set_grants=[Grant("*")]
    )
    declared = {"kind": "basic", "labels": {"floor": "2"}, "config": {"seats": 9}, "aggregates": {}}
    declared["gates"] = {"g": {"count_target": 0, "deadline_ms": 0, "all_live_members": False}}
    changed = {
        **declared,
        "labels": {"floor": "3"},
        "aggregates": {"n": {"function": "count", "scope": "entries"}},
    }
    types = frozenset({EventType.ENVIRONMENT_REGISTERED, EventType.ENVIRONMENT_UPDATED})
    for is_live in (True, False):
        if not is_live:
            real_server.kill()
            real_server.start()
        registered, updated = await hear(real_world, 2, types)
        assert (registered.value, registered.changed_fields) == (declared, ())
        assert (updated.value, updated.changed_fields) == (changed, ("labels", "aggregates", "grants"))
    assert tell_deed(registered).startswith('made: labels {"floor": "2"}, config {"seats": 9}, gates {"g"')
    assert tell_deed(updated).startswith('declared anew: labels {"floor": "3"}, aggregates {"n"')
    assert tell_deed(updated).endswith(", grants")
    assert event_document(updated)["changed_fields"] == ["labels", "aggregates", "grants"]
    show_event(updated, as_json=False)
    assert "(labels, aggregates, grants) {" in capsys.readouterr().out
    assert "secret" not in f"{registered.value}{updated.value}"


async def test_aggregates_are_told_when_a_generation_begins(real_world: World) -> None:
    club = real_world.environment("/club")
    await club.register(gates=[Gate("g")], aggregates=[Aggregate("n", AggregateFunction.COUNT, in_generation=True)])
    await club.begin_generation("g")
    await club.set("ann", 1)
    await club.begin_generation("g")
    told = await hear(real_world, 2, frozenset({EventType.AGGREGATE_CHANGED}))
    assert [event.value for event in told] == [1, 0]
