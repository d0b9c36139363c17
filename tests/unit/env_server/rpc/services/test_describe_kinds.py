"""DescribeKind: operations with schemas, listeners with filters, and what is not installed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from env_api.v1 import environment_service_pb2 as service_pb2
from env_api.v1 import events_pb2

from env_server.behaviours import Behaviour, Context, Event, EventType, Target, listener, operation
from env_server.behaviours.registry import Behaviours
from env_server.model.errors import NotFound
from env_server.rpc.services.describe_kinds import serve_descriptions


class Shop(Behaviour):
    """Sells things."""

    kind = "shop"
    concurrency_max = 3

    @operation(writes=lambda path, item, count=1: [Target(path, item)], timeout_s=1.5)
    async def buy(self, ctx: Context, item: str, count: int = 1) -> dict[str, int]:
        """Takes some of an item."""
        return {item: count}

    @operation(reads_only=True)
    async def browse(self, ctx: Context) -> Any: ...

    @operation()
    async def close(self, ctx: Context) -> Any: ...

    @listener(types=[EventType.GATE_OPENED], path="till", key="day")
    async def balance(self, ctx: Context, event: Event) -> None:
        """Counts the money in the evening."""


async def ask(kind: str) -> list[service_pb2.KindDescription]:
    handle = serve_descriptions(Behaviours([Shop()]).describe)
    answer = await handle(service_pb2.DescribeKindRequest(kind=kind).SerializeToString(), None)  # type: ignore[arg-type]
    return list(service_pb2.DescribeKindResponse.FromString(answer).kinds)


async def test_a_kind_tells_its_operations_and_listeners() -> None:
    (shop,) = await ask("shop")
    assert (shop.kind, shop.description, shop.concurrency_max) == ("shop", "Sells things.", 3)
    browse, buy, close = shop.operations
    assert [one.reads_only for one in (browse, buy, close)] == [True, False, False]
    assert not browse.exclusive
    assert (buy.name, buy.description, buy.exclusive, buy.timeout_ms) == ("buy", "Takes some of an item.", False, 1500)
    schema = json.loads(buy.args_schema_json)
    assert schema["required"] == ["item"] and schema["additionalProperties"] is False
    assert schema["properties"]["count"]["default"] == 1
    assert json.loads(buy.result_schema_json) == {"additionalProperties": {"type": "integer"}, "type": "object"}
    assert (close.exclusive, close.timeout_ms, close.result_schema_json) == (True, 0, b"")
    (balance,) = shop.listeners
    assert (balance.name, balance.filter.path_glob, balance.filter.key_glob) == ("balance", "till", "day")
    assert list(balance.filter.types) == [events_pb2.EVENT_TYPE_GATE_OPENED]


async def test_all_kinds_come_by_name() -> None:
    assert [found.kind for found in await ask("")] == ["basic", "shop"]


async def test_a_kind_that_is_not_installed_is_not_found() -> None:
    with pytest.raises(NotFound):
        await ask("casino")
