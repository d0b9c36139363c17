"""Intents are applied by agent and number, whatever the order in which they came; each is refused alone."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from env_server.behaviours.market import Market
from env_server.behaviours.ordered_intents import OrderedIntents
from env_server.model.errors import OperationRefused
from env_server.model.operations import Code, EnvironmentUpdate
from env_server.model.spaces import Grid, Space
from env_server.testing.behaviour_stand import BehaviourStand, behaviour_stand
from tests.engine import Op

M, INTENTS = "/market", "/market/intents"


class OrderedMarket(OrderedIntents, Market):
    """A market whose orders are placed in order."""

    kind: ClassVar[str] = "ordered_market"
    intents: ClassVar[dict[str, str]] = {"place": "trader", "cancel": "trader"}


@pytest.fixture
def stand() -> Iterator[BehaviourStand]:
    with behaviour_stand(OrderedMarket) as stand:
        stand.register(M, kind="ordered_market")
        yield stand


def order(side: str, price: int, quantity: int = 1) -> dict[str, Any]:
    return {"do": "place", "args": {"side": side, "good": "oil", "price": price, "quantity": quantity}}


def want(stand: BehaviourStand, wanted: dict[str, list[Any]], arrival: list[str]) -> Any:
    """A generation: intents come in the order of `arrival`, then all are applied."""
    begun: Any = stand.invoke(M, "want_intents", participants=len(arrival))
    for agent in arrival:
        stand.set(INTENTS, agent, {"intents": wanted[agent]})
    return stand.invoke(M, "apply_intents", generation=begun["generation"])


def state(stand: BehaviourStand, traders: list[str]) -> Any:
    return [stand.get(M, "book.oil"), stand.get(M, "last_order"), *(stand.get(M, f"account.{t}") for t in traders)]


def test_the_outcome_does_not_depend_on_arrival(seed: int) -> None:
    """It would: the market gives the earlier of two equal orders the trade."""
    chance = random.Random(seed)
    traders = [f"t{number}" for number in range(12)]
    wanted = {
        trader: [order(chance.choice(["buy", "sell"]), chance.randint(8, 12)) for _ in range(chance.randint(0, 3))]
        for trader in traders
    }
    outcomes = []
    for _ in range(3):
        arrival = chance.sample(traders, len(traders))
        with behaviour_stand(OrderedMarket) as stand:
            stand.register(M, kind="ordered_market")
            for trader in traders:
                stand.invoke(M, "deposit", trader=trader, cash=100, goods={"oil": 3})
            applied = want(stand, wanted, arrival)
            outcomes.append((applied, state(stand, traders)))
    assert outcomes[0] == outcomes[1] == outcomes[2]
    assert outcomes[0][0]["applied"] == sum(map(len, wanted.values()))


def test_each_intent_sees_what_those_before_it_have_left(stand: BehaviourStand) -> None:
    """Of two who sell, the one whose id comes first sells, and can spend it at once."""
    stand.invoke(M, "deposit", trader="ann", goods={"oil": 1})
    stand.invoke(M, "deposit", trader="bob", goods={"oil": 1})
    stand.invoke(M, "deposit", trader="zoe", cash=10)
    stand.invoke(M, "place", trader="zoe", side="buy", good="oil", price=10, quantity=1)
    applied = want(stand, {"bob": [order("sell", 10)], "ann": [order("sell", 10), order("buy", 10)]}, ["bob", "ann"])
    assert (applied["agents"], applied["applied"], applied["refused"]) == (2, 3, 0)
    assert stand.get(M, "account.ann")["cash"] == 0, "she spent what zoe had paid her"
    assert stand.get(M, "account.bob")["cash"] == 10, "he sold to ann, who had sold to zoe"
    assert stand.get(M, "last_order") == 4


@pytest.mark.parametrize(
    ("intent", "reason"),
    [
        (order("buy", 10**6), "not_enough"),
        ({"do": "deposit", "args": {"cash": 5}}, "no_such_intent"),
        ({"do": "place", "args": {"side": "buy"}}, "INVALID_ARGUMENTS"),
        ({"do": "place", "args": []}, "no_such_intent"),
        ("nonsense", "no_such_intent"),
    ],
)
def test_what_is_refused_leaves_nothing_and_stops_nobody(stand: BehaviourStand, intent: Any, reason: str) -> None:
    stand.invoke(M, "deposit", trader="ann", cash=10)
    applied = want(stand, {"ann": [intent, order("buy", 5)]}, ["ann"])
    assert (applied["applied"], applied["refused"]) == (1, 1)
    assert applied["refusals"] == [{"agent": "ann", "seq": 0, "reason": reason}]
    assert stand.get(M, "last_order") == 1
    assert stand.get(M, "account.ann")["cash"] == 5


def test_an_agent_speaks_for_itself_alone(stand: BehaviourStand) -> None:
    stand.invoke(M, "deposit", trader="rich", cash=100)
    intent = {"do": "place", "args": {**order("buy", 5)["args"], "trader": "rich"}}
    applied = want(stand, {"ann": [intent]}, ["ann"])
    assert applied["refusals"][0]["reason"] == "no_account"
    assert stand.get(M, "account.rich")["cash"] == 100


def test_only_intents_of_the_generation_count_and_only_once(stand: BehaviourStand) -> None:
    stand.invoke(M, "deposit", trader="ann", cash=100)
    stand.invoke(M, "deposit", trader="bob", cash=100)
    want(stand, {"ann": [order("buy", 5)]}, ["ann"])
    applied = want(stand, {"bob": [order("buy", 5)]}, ["bob"])
    assert (applied["round"], applied["agents"], applied["applied"]) == (2, 1, 1)
    for generation in (1, 2, 3):
        with pytest.raises(OperationRefused, match="is not open"):
            stand.invoke(M, "apply_intents", generation=generation)
    stand.invoke(M, "want_intents")
    with pytest.raises(OperationRefused, match="has not been applied"):
        stand.invoke(M, "want_intents")


def test_whoever_only_moves_wants_nothing_anew(stand: BehaviourStand) -> None:
    stand.invoke(M, "deposit", trader="ann", cash=100)
    want(stand, {"ann": [order("buy", 5)]}, ["ann"])
    engine = stand.engine
    engine.done(Op(INTENTS, "", Code.UPDATE_ENVIRONMENT, EnvironmentUpdate(space=Space(Grid(4, 4)))))
    begun: Any = stand.invoke(M, "want_intents", participants=1)
    engine.done(Op(INTENTS, "ann", Code.MOVE, (1.0, 1.0)))
    stand.set(INTENTS, "bob", {"intents": []})
    assert stand.invoke(M, "apply_intents", generation=begun["generation"])["applied"] == 0


def test_a_thousand_intents_are_one_revision(stand: BehaviourStand) -> None:
    stand.invoke(M, "deposit", trader="ann", cash=10**6)
    begun: Any = stand.invoke(M, "want_intents", participants=1)
    both = [[order("buy", 5), {"do": "cancel", "args": {"good": "oil", "order": number}}] for number in range(1, 501)]
    stand.set(INTENTS, "ann", {"intents": [intent for pair in both for intent in pair]})
    before = stand.revision
    applied = stand.invoke(M, "apply_intents", generation=begun["generation"])
    assert (applied["applied"], applied["refused"]) == (1000, 0)
    assert stand.revision == before + 1
    assert stand.get(M, "last_order") == 500
    assert stand.get(M, "book.oil") == {"bids": [], "asks": []}
