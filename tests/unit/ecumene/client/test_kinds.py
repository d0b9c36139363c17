"""Kinds of environments as a client learns of them, and what an entry was before."""

from __future__ import annotations

import ecumene
import pytest
from ecumene import EventType, World


async def test_kinds_tell_operations_with_their_schemas(real_world: World) -> None:
    names = [info.kind for info in await real_world.kinds()]
    assert names == sorted(names)
    assert {"basic", "guess_game"} <= set(names)
    game = await real_world.describe_kind("guess_game")
    assert game in await real_world.kinds()
    assert game.description
    close = next(operation for operation in game.operations if operation.name == "close_round")
    assert isinstance(close.args_schema, dict)
    assert close.args_schema["type"] == "object"
    with pytest.raises(ecumene.KindNotFoundError):
        await real_world.describe_kind("no_such_kind")


async def test_the_past_of_an_entry_is_read_in_pages_also_after_its_end(real_world: World) -> None:
    room = real_world.environment("/room")
    for number in range(5):
        await room.set("a", number, actor="ann")
        await room.set("b", -number)
    await room.delete("a")
    whole = await room.read_past("a")
    assert [(change.type, change.value, change.version) for change in whole.values[:-1]] == [
        (EventType.ENTRY_SET, number, number + 1) for number in range(5)
    ]
    assert whole.values[-1].type is EventType.ENTRY_DELETED
    assert whole.values[-1].value is None
    assert {change.actor for change in whole.values[:-1]} == {"ann"}
    assert whole.next_revision == 0
    pages, start = [], 0
    while True:
        page = await room.read_past("a", from_revision=start, limit=2)
        pages.append(page.values)
        start = page.next_revision
        if not start:
            break
    assert [change for values in pages for change in values] == list(whole.values)
    assert [len(values) for values in pages[:2]] == [2, 2]
    third = whole.values[2].revision
    assert (await room.read_past("a", from_revision=third, to_revision=third)).values == (whole.values[2],)
