"""How behaviours are declared, loaded and asked: arguments by annotation, keys by declaration, one class a kind."""

from __future__ import annotations

from typing import ClassVar

import pytest

from env_server.behaviours.behaviour import Behaviour, Target, operation
from env_server.behaviours.context import Context
from env_server.behaviours.registry import BehaviourError, Behaviours, load
from env_server.model.errors import InvalidRequest, NotFound, Reason
from env_server.model.values import Json


class Shop(Behaviour):
    kind: ClassVar[str] = "shop"
    concurrency_max: ClassVar[int] = 3

    @operation(writes=lambda path, name, count=1: [Target(path, name)], timeout_s=2.0)
    async def buy(self, ctx: Context, name: str, count: int = 1) -> int:
        return count

    @operation()
    async def close(self, ctx: Context) -> None: ...

    async def not_offered(self, ctx: Context) -> None: ...


def test_operations_are_the_marked_methods() -> None:
    operations = Shop().operations()
    assert sorted(operations) == ["buy", "close"]
    assert operations["buy"].timeout_s == 2.0
    assert operations["buy"].targets("/shop", {"name": "tea", "count": 2}) == [Target("/shop", "tea")]
    assert operations["close"].targets("/shop", {}) == [Target("/shop", None)]


def test_arguments_are_read_by_their_annotations() -> None:
    buy = Shop().operations()["buy"]
    assert buy.parse(Json(b'{"name":"tea"}')) == {"name": "tea", "count": 1}
    assert buy.parse(Json(b'{"name":"tea","count":5}')) == {"name": "tea", "count": 5}


@pytest.mark.parametrize(
    ("text", "field"),
    [(b"{}", "name"), (b'{"name":1}', "name"), (b'{"name":"a","count":1.5}', "count"), (b'{"name":"a","x":1}', "x")],
)
def test_what_does_not_fit_names_its_field_and_shows_no_input(text: bytes, field: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        Shop().operations()["buy"].parse(Json(text))
    assert caught.value.reason is Reason.INVALID_ARGUMENTS
    assert caught.value.violations[0][0] == field
    assert caught.value.metadata == {"operation": "buy"}
    assert "http" not in caught.value.message


def test_a_registry_knows_kinds_and_their_operations() -> None:
    behaviours = Behaviours([Shop()])
    behaviours.check_kind("basic")
    assert behaviours.find("shop", "buy").name == "buy"
    assert behaviours.concurrency_max("shop") == 3
    with pytest.raises(NotFound) as caught:
        behaviours.find("shop", "sell")
    assert caught.value.reason is Reason.OPERATION_NOT_FOUND
    with pytest.raises(NotFound) as caught:
        behaviours.find("bank", "buy")
    assert caught.value.reason is Reason.KIND_NOT_FOUND
    with pytest.raises(BehaviourError, match=r"'shop': \S+:Shop and \S+:Shop$"):
        Behaviours([Shop(), Shop()])


@pytest.mark.parametrize("name", ["nowhere:X", "json:Nothing", "json:dumps", "tests.engine:Stand", "noname", ":x"])
def test_what_is_no_behaviour_is_refused_in_one_line(name: str) -> None:
    with pytest.raises(BehaviourError) as caught:
        load([name])
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)


def test_named_behaviours_stand_beside_the_installed_ones() -> None:
    behaviours = load(["tests.promises.tally:Tally"])
    behaviours.check_kind("tally")
    behaviours.check_kind("guess_game")
