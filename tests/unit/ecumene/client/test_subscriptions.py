"""Subscriptions of the SDK: all at least once, effects once, deadlines extended, replaced consumers fenced."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from typing import Any

import ecumene
import pytest
from ecumene import EventFilter, Subscription, SubscriptionState, World

from tests.services import ServerProcess
from tests.unit.ecumene.client.conftest import QUICK
from tests.unit.ecumene.client.fake_server import became, reached

FILTER = EventFilter(path_prefix="/room")


async def settled(subscription: Subscription, condition: Callable[[ecumene.SubscriptionInfo], bool]) -> None:
    """Wait until the server says so."""

    async def ask() -> bool:
        return condition(await subscription.describe())

    await became(ask)


async def test_a_subscription_is_made_described_sought_and_deleted(real_world: World) -> None:
    inbox = real_world.subscription("inbox")
    with pytest.raises(ecumene.SubscriptionNotFoundError):
        await inbox.describe()
    made = await inbox.create(FILTER, partitions=3, ack_timeout_ms=2000, max_lag=5000)
    assert made == await inbox.describe()
    assert (made.name, made.partitions, made.ack_timeout_ms, made.max_lag) == ("inbox", 3, 2000, 5000)
    assert made.event_filter == FILTER
    assert made.state is SubscriptionState.LIVE
    with pytest.raises(ecumene.SubscriptionExistsError):
        await inbox.create(FILTER)
    assert (await inbox.create(if_absent=True)).partitions == 3, "left as it is"
    assert [info.name for info in await real_world.subscriptions()] == ["inbox"]
    assert (await inbox.seek(1)).cursor == 0
    await inbox.delete()
    assert await real_world.subscriptions() == []


async def test_a_consumer_knows_its_history_and_lists_are_read_to_their_end(
    real_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(12):
        await real_world.subscription(f"s{number:02}").create(FILTER)
    asked: list[str] = []
    call = real_world.session.calls.call

    async def in_small_pages(method: Any, request: Any, **options: Any) -> Any:
        request.page_size = 5
        asked.append(request.page_token)
        return await call(method, request, **options)

    async with real_world.subscription("s00").consume() as deliveries:
        await reached(lambda: deliveries.partitions == (0,))
        assert deliveries.history == real_world.history != ""
    leases = [await real_world.lease(60) for _ in range(12)]
    monkeypatch.setattr(real_world.session.calls, "call", in_small_pages)
    assert [one.name for one in await real_world.subscriptions()] == [f"s{number:02}" for number in range(12)]
    assert asked == ["", "s04", "s09"]
    asked.clear()
    assert [one.lease_id for one in await real_world.leases()] == [lease.id for lease in leases]
    assert asked == ["", str(leases[4].id), str(leases[9].id)]


async def test_effects_in_the_transaction_of_the_acknowledgement_come_once_over_kills(
    real_server: ServerProcess, real_world: World
) -> None:
    out, inbox = real_world.environment("/out"), real_world.subscription("inbox")
    await out.register()
    await inbox.create(FILTER, ack_timeout_ms=5000)
    count, handled = 60, []

    async def write() -> None:
        for number in range(count):
            await real_world.environment("/room").set(f"k{number}", number)

    async def consume() -> None:
        async with inbox.consume(outstanding_max=10) as deliveries:
            async for delivery in deliveries:
                effects = real_world.transaction().acknowledge(delivery)
                for event in delivery:
                    effects.increment("/out", event.key).increment("/out", "sum", int(str(event.value)))
                try:
                    await effects.commit()
                except ecumene.FencedError:
                    continue  # it comes again, under a new term
                handled.extend(event.key for event in delivery)
                if f"k{count - 1}" in handled:
                    return

    async with asyncio.timeout(60):
        tasks = [asyncio.create_task(write(), name="write"), asyncio.create_task(consume(), name="consume")]
        for threshold in (10, 30):
            await reached(lambda at_least=threshold: len(handled) >= at_least, 20)  # type: ignore[misc]
            real_server.kill()
            await asyncio.to_thread(real_server.start)
        await asyncio.gather(*tasks)
    counts = {entry.key: entry.value async for entry in out.entries()}
    assert counts.pop("sum") == sum(range(count))
    assert counts == {f"k{number}": 1 for number in range(count)}


async def test_what_is_held_for_long_is_not_delivered_to_another(real_world: World) -> None:
    inbox = real_world.subscription("inbox")
    await inbox.create(FILTER, ack_timeout_ms=1000)
    await real_world.environment("/room").set("slow", 1)
    async with inbox.consume() as deliveries:
        delivery = await anext(deliveries)
        await asyncio.sleep(3)
        assert [consumer.outstanding_events for consumer in (await inbox.describe()).consumers] == [1]
        await deliveries.acknowledge(delivery)
        assert (await inbox.describe()).cursor >= delivery.through_revision


async def test_a_consumer_that_is_replaced_is_fenced_and_its_work_is_delivered_again(real_world: World) -> None:
    inbox = real_world.subscription("inbox")
    await inbox.create(FILTER)
    await real_world.environment("/room").set("a", 1)
    async with inbox.consume("old") as old:
        held = await anext(old)
        new = inbox.consume("new")
        again = await anext(new)
        assert [event.key for event in again] == [event.key for event in held] == ["a"]
        assert again.term > held.term
        with pytest.raises(ecumene.FencedError):
            await old.acknowledge(held)
        with pytest.raises(ecumene.FencedError):
            await real_world.transaction().acknowledge(held).set("/room", "effect", 1).commit()
        with pytest.raises(ecumene.FencedError):
            await anext(old)
        await new.acknowledge(again)
        await new.aclose()
    assert await real_world.environment("/room").value("effect") is None


async def test_consumers_share_partitions_and_all_is_delivered(real_world: World) -> None:
    inbox = real_world.subscription("inbox")
    await inbox.create(FILTER, partitions=8)
    seen: list[str] = []

    async def consume(name: str) -> None:
        async with inbox.consume(name) as deliveries:
            async for delivery in deliveries:
                await deliveries.acknowledge(delivery)
                seen.extend(event.key for event in delivery)

    consumers = [asyncio.create_task(consume(f"c{number}"), name=f"c{number}") for number in range(3)]
    await settled(inbox, lambda info: len(info.consumers) == 3)
    await asyncio.gather(*[real_world.environment("/room").set(f"k{number}", number) for number in range(100)])
    await reached(lambda: len(set(seen)) == 100, 20)
    for task in consumers:
        task.cancel()
    await asyncio.gather(*consumers, return_exceptions=True)
    await settled(inbox, lambda info: not info.consumers)


async def test_a_subscription_that_is_deleted_ends_its_consumers_with_the_reason(real_world: World) -> None:
    inbox = real_world.subscription("inbox")
    await inbox.create(FILTER)
    async with inbox.consume() as deliveries:
        await settled(inbox, lambda info: len(info.consumers) == 1)
        await inbox.delete()
        with pytest.raises(ecumene.SubscriptionNotFoundError):
            await anext(deliveries)
    with pytest.raises(ecumene.SubscriptionNotFoundError):
        await anext(inbox.consume())


async def test_a_reader_that_is_dropped_or_whose_session_ends_detaches(
    real_server: ServerProcess, real_world: World
) -> None:
    inbox = real_world.subscription("inbox")
    await inbox.create(FILTER)
    await real_world.environment("/room").set("a", 1)
    async for delivery in inbox.consume("dropped"):
        assert [event.key for event in delivery] == ["a"]
        break
    gc.collect()
    await settled(inbox, lambda info: not info.consumers)
    async with ecumene.connect(real_server.address, settings=QUICK) as other:
        deliveries = other.subscription("inbox").consume("left-open")
        await anext(deliveries)
    await settled(inbox, lambda info: not info.consumers)
    with pytest.raises(StopAsyncIteration):
        await anext(deliveries)


async def test_a_wait_that_is_cancelled_loses_nothing(real_world: World) -> None:
    inbox = real_world.subscription("inbox")
    await inbox.create(FILTER)
    async with inbox.consume() as deliveries:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await anext(deliveries)
        await real_world.environment("/room").set("a", 1)
        assert [event.key for event in await anext(deliveries)] == ["a"]
