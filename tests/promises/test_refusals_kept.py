"""What an agent is told was refused is kept under the op's number: no later op of the number has an effect."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest
from ecumene import EcumeneError, Environment, World, connect

from agent_runtime.actions.settlement import is_answerable
from tests.services import ServerProcess

Write = Callable[[World, Environment, dict[str, Any]], Awaitable[object]]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One server for all; each test has a world of its own."""
    with ServerProcess(tmp_path_factory.mktemp("worlds") / "data") as running:
        yield running


@pytest.fixture
async def world(server: ServerProcess) -> AsyncIterator[World]:
    async with connect(server.address, f"world-{uuid.uuid4().hex}", create=True) as opened:
        yield opened


def invoke(operation: str, **arguments: Any) -> Write:
    return lambda world, place, who: world.environment("/market").run(operation, arguments, **who)


def transact(path: str, key: str, value: Any) -> Write:
    return lambda world, place, who: world.transaction().set(path, key, value).commit(**who)


@pytest.mark.parametrize(
    "refused",
    [
        lambda world, place, who: world.environment("/nowhere").set("k", 1, **who),
        transact("/nowhere", "k", 1),
        transact("/numbers", "k", "a text"),
        lambda world, place, who: place.delete("absent", **who),
        lambda world, place, who: place.increment("text", 1, **who),
        lambda world, place, who: place.create("text", 1, **who),
        lambda world, place, who: place.set("text", 1, expect_version=77, **who),
        lambda world, place, who: place.set("big", "x" * 2_000_000, **who),
        lambda world, place, who: world.environment("/numbers").set("k", "a text", **who),
        invoke("steal"),
        invoke("place", trader="ann"),
        invoke("place", trader="ann", side="sell", good="corn", price=1, quantity=99),
        lambda world, place, who: world.environment("/place").run("join", {}, **who),
    ],
)
async def test_a_number_that_was_refused_stays_refused(world: World, refused: Write) -> None:
    place = world.environment("/place")
    await place.register()
    await world.environment("/numbers").register(entry_schema={"type": "number"})
    await world.environment("/market").register(kind="market")
    await place.set("text", "t")
    who = {"producer": "ann", "seq": 7}
    with pytest.raises(EcumeneError) as first:
        await refused(world, place, who)
    assert is_answerable(first.value), first.value
    with pytest.raises(EcumeneError) as second:
        await place.set("k", "later", **who)
    assert (second.value.reason, str(second.value)) == (first.value.reason, str(first.value))
    assert await place.value("k") is None
