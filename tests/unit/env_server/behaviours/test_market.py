"""The market: price before time, partial fills, and nothing gained or lost by any sequence of orders."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from env_server.behaviours.description import describe_kind
from env_server.behaviours.market import RESTING_MAX, TRADES_MAX, Market
from env_server.model.errors import InvalidRequest, OperationRefused
from env_server.testing import BehaviourStand, behaviour_stand


@pytest.fixture
def stand() -> Iterator[BehaviourStand]:
    with behaviour_stand(Market) as stand:
        stand.register("/m", kind="market")
        for trader in ("ada", "bob", "eve"):
            stand.invoke("/m", "deposit", trader=trader, cash=1000, goods={"corn": 100})
        yield stand


def place(stand: BehaviourStand, trader: str, side: str, price: int, quantity: int) -> dict[str, Any]:
    placed: dict[str, Any] = stand.invoke(
        "/m", "place", trader=trader, side=side, good="corn", price=price, quantity=quantity
    )
    return placed


def test_better_prices_first_then_older_orders(stand: BehaviourStand) -> None:
    place(stand, "ada", "sell", 12, 5)
    place(stand, "bob", "sell", 10, 5)
    place(stand, "ada", "sell", 10, 5)
    placed = place(stand, "eve", "buy", 12, 12)
    assert [(one["trader"], one["price"], one["quantity"]) for one in placed["fills"]] == [
        ("bob", 10, 5),
        ("ada", 10, 5),
        ("ada", 12, 2),
    ]
    assert (placed["resting"], placed["unplaced"]) == (0, 0)
    assert stand.invoke("/m", "book", good="corn") == {"bids": [], "asks": [[12, 1, "ada", 3]]}
    assert stand.invoke("/m", "account", trader="eve") == {"cash": 1000 - 124, "goods": {"corn": 112}}
    assert stand.invoke("/m", "account", trader="bob") == {"cash": 1050, "goods": {"corn": 95}}


def test_a_trade_is_one_revision_and_happens_at_the_resting_price(stand: BehaviourStand) -> None:
    place(stand, "ada", "buy", 9, 10)
    before = stand.revision
    placed = place(stand, "bob", "sell", 5, 4)
    assert stand.revision == before + 1
    assert placed["fills"] == [{"order": 1, "trader": "ada", "price": 9, "quantity": 4}]
    assert stand.invoke("/m", "account", trader="bob")["cash"] == 1036
    assert stand.invoke("/m", "account", trader="ada") == {"cash": 910, "goods": {"corn": 104}}
    assert stand.items("/m", "trades")[0]["fills"] == placed["fills"]


def test_a_resting_order_holds_what_it_costs_and_gives_it_back(stand: BehaviourStand) -> None:
    order = place(stand, "ada", "buy", 10, 100)["order"]
    assert stand.invoke("/m", "account", trader="ada")["cash"] == 0
    with pytest.raises(OperationRefused) as caught:
        place(stand, "ada", "buy", 1, 1)
    assert caught.value.metadata == {"code": "not_enough", "what": "cash"}
    with pytest.raises(OperationRefused):
        stand.invoke("/m", "cancel", trader="bob", good="corn", order=order)
    assert stand.invoke("/m", "cancel", trader="ada", good="corn", order=order) == {"cancelled": 100}
    assert stand.invoke("/m", "account", trader="ada")["cash"] == 1000
    with pytest.raises(OperationRefused):
        stand.invoke("/m", "withdraw", trader="ada", cash=1001)
    with pytest.raises(OperationRefused):
        place(stand, "ada", "sell", 1, 101)


def test_an_order_that_would_meet_its_own_cancels_that(stand: BehaviourStand) -> None:
    own = place(stand, "ada", "sell", 10, 5)["order"]
    place(stand, "bob", "sell", 11, 5)
    placed = place(stand, "ada", "buy", 11, 5)
    assert placed["cancelled"] == [own]
    assert [one["trader"] for one in placed["fills"]] == ["bob"]
    assert stand.invoke("/m", "account", trader="ada") == {"cash": 945, "goods": {"corn": 105}}


def test_one_order_meets_a_bounded_number_and_the_book_is_bounded(stand: BehaviourStand) -> None:
    stand.invoke("/m", "deposit", trader="ada", goods={"corn": 10_000})
    for _ in range(TRADES_MAX + 5):
        place(stand, "ada", "sell", 1, 1)
    placed = place(stand, "bob", "buy", 1, TRADES_MAX + 3)
    assert len(placed["fills"]) == TRADES_MAX
    assert (placed["resting"], placed["unplaced"]) == (0, 3)
    for _ in range(RESTING_MAX - 5):
        place(stand, "ada", "sell", 5, 1)
    with pytest.raises(OperationRefused) as caught:
        place(stand, "ada", "sell", 5, 1)
    assert caught.value.metadata["code"] == "book_full"


@pytest.mark.parametrize(
    "bad", [{"price": 0}, {"quantity": -1}, {"side": "hold"}, {"price": 1.5}, {"good": "a/b"}, {"trader": ""}]
)
def test_bad_orders_are_refused(stand: BehaviourStand, bad: dict[str, Any]) -> None:
    order = {"trader": "ada", "side": "buy", "good": "corn", "price": 1, "quantity": 1} | bad
    with pytest.raises(InvalidRequest):
        stand.invoke("/m", "place", **order)


TRADERS = ("a", "b", "c")
GOODS = ("corn", "iron")
ORDERS = st.tuples(
    st.sampled_from(TRADERS),
    st.sampled_from(("buy", "sell", "cancel", "withdraw")),
    st.sampled_from(GOODS),
    st.integers(1, 12),
    st.integers(1, 20),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(ORDERS, max_size=40), st.integers(0, 40))
def test_money_and_goods_are_conserved(orders: list[tuple[str, str, str, int, int]], killed_at: int) -> None:
    with behaviour_stand(Market) as stand:
        stand.register("/m", kind="market")
        had: Counter[str] = Counter()
        for trader in TRADERS:
            stand.invoke("/m", "deposit", trader=trader, cash=100, goods=dict.fromkeys(GOODS, 20))
            had.update({"cash": 100, **dict.fromkeys(GOODS, 20)})
        for at, (trader, what, good, price, quantity) in enumerate(orders):
            if at == killed_at:
                stand.kill_and_restart()
            arguments: dict[str, Any] = {"trader": trader, "good": good, "order": price}
            if what == "withdraw":
                arguments = {"trader": trader, "cash": price, "goods": {good: quantity}}
            elif what != "cancel":
                arguments = {"trader": trader, "side": what, "good": good, "price": price, "quantity": quantity}
            try:
                stand.invoke("/m", what if what in ("cancel", "withdraw") else "place", **arguments)
            except OperationRefused:
                continue
            if what == "withdraw":
                had.subtract({"cash": price, good: quantity})
            assert count_all(stand) == +had
            for good_there in GOODS:
                check_book(stand.invoke("/m", "book", good=good_there))


def count_all(stand: BehaviourStand) -> Counter[str]:
    found: Counter[str] = Counter()
    for key, value in stand.entries("/m").items():
        if key.startswith("account."):
            assert value["cash"] >= 0 and all(quantity > 0 for quantity in value["goods"].values())
            found.update({"cash": value["cash"], **value["goods"]})
        elif key.startswith("book."):
            found["cash"] += sum(price * quantity for price, _, _, quantity in value["bids"])
            found[key.removeprefix("book.")] += sum(quantity for _, _, _, quantity in value["asks"])
    return +found


def check_book(book: dict[str, list[list[Any]]]) -> None:
    bids, asks = book["bids"], book["asks"]
    assert bids == sorted(bids, key=lambda one: (-one[0], one[1]))
    assert asks == sorted(asks, key=lambda one: (one[0], one[1]))
    assert not (bids and asks) or bids[0][0] < asks[0][0], "what could trade has traded"


def test_its_results_have_schemas() -> None:
    described = {one.name: one.result for one in describe_kind("market", Market()).operations}
    assert all(described.values())
    placed = described["place"]
    assert placed is not None
    assert {"order", "fills", "resting"} <= placed.document["properties"].keys()
