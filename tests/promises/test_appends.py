"""Messages that arrive at once: all of them are kept, in one order, which every reader sees.

Case 1: of three messages to one agent in one step only the last survived.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import ecumene
import grpc
from env_api.v1 import operations_pb2 as operations
from env_api.v1 import session_pb2, values_pb2

from tests.raw_client import Failure, RawSession, call
from tests.services import ServerProcess

WRITERS = 16
"""Of each way to append."""
EACH = 25
WAYS = 4
TOTAL = WRITERS * EACH * WAYS


def item(text: str) -> operations.Update:
    return operations.Update(append=values_pb2.Value(string_value=text))


async def by_calls(channel: grpc.aio.Channel, name: str) -> None:
    for number in range(EACH):
        answer = await call(channel, "update", path="/", key="inbox", update=item(f"{name}:{number}"))
        assert not isinstance(answer, Failure)


async def by_transactions(channel: grpc.aio.Channel, name: str) -> None:
    for number in range(EACH):
        writes = [
            operations.Write(path="/", key="inbox", update=item(f"{name}:{number}")),
            operations.Write(path="/", key="sent", update=operations.Update(add_int=1)),
        ]
        answer = await call(channel, "transact", transact=operations.Transact(writes=writes))
        assert not isinstance(answer, Failure)


async def by_one_frame(channel: grpc.aio.Channel, name: str) -> None:
    """All in one step."""
    session = await RawSession(channel, name).open()
    ops = [session_pb2.Op(key="inbox", update=item(f"{name}:{number}")) for number in range(EACH)]
    assert all(not outcome.HasField("error") for outcome in await session.do(*ops))
    session.cancel()


async def by_the_sdk(address: str, name: str) -> None:
    """All at once, without waiting for one another."""
    async with ecumene.connect(address) as world:
        place = world.environment("/")
        await asyncio.gather(*[place.append("inbox", f"{name}:{number}") for number in range(EACH)])


async def told(watch: ecumene.client.Watch) -> list[str]:
    """The items as a watch tells them."""
    items: list[str] = []
    async for event in watch:
        if event.key == "inbox" and event.value is not None:
            items.append(str(event.value))
            if len(items) == TOTAL:
                break
    await watch.aclose()
    return items


async def test_appends_at_once_are_all_kept_in_one_order_for_every_reader(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        async with grpc.aio.insecure_channel(server.address) as channel, ecumene.connect(server.address) as world:
            await world.environment("/").create_stream("inbox", items_max=TOTAL)
            since = world.revision + 1
            live = [
                asyncio.create_task(told(world.watch(from_revision=since)), name=f"reader {number}")
                for number in range(3)
            ]
            await asyncio.gather(
                *[by_calls(channel, f"call{number}") for number in range(WRITERS)],
                *[by_transactions(channel, f"both{number}") for number in range(WRITERS)],
                *[by_one_frame(channel, f"frame{number}") for number in range(WRITERS)],
                *[by_the_sdk(server.address, f"sdk{number}") for number in range(WRITERS)],
            )
            kept = []
            while page := (await world.environment("/").read_stream("inbox", from_sequence=len(kept) + 1)).items:
                kept += page
            items = [one.value for one in kept]
            assert [one.sequence for one in kept] == list(range(1, TOTAL + 1))
            assert len(set(items)) == TOTAL, "each once"
            for writer in {str(one).partition(":")[0] for one in items}:
                mine = [one for one in items if str(one).startswith(f"{writer}:")]
                assert mine == [f"{writer}:{number}" for number in range(EACH)], "in the order in which it sent them"
            async with asyncio.timeout(30):
                readers = await asyncio.gather(*live, told(world.watch(from_revision=1)))
            assert all(reader == items for reader in readers)
            assert await world.environment("/").value("sent") == WRITERS * EACH
