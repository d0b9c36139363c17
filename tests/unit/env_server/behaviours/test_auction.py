"""The auction: time, order and one winner, whatever happens meanwhile."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from env_server.behaviours.auction import Auction
from env_server.model.changes import EventType
from env_server.model.errors import OperationRefused
from env_server.testing import BehaviourStand, behaviour_stand


@pytest.fixture
def stand() -> Iterator[BehaviourStand]:
    with behaviour_stand(Auction) as stand:
        stand.register("/auction", kind="auction", config={"reserve": 10, "step": 5})
        yield stand


def refusal(stand: BehaviourStand, operation: str, **arguments: object) -> dict[str, str]:
    with pytest.raises(OperationRefused) as caught:
        stand.invoke("/auction", operation, **arguments)
    return caught.value.metadata


def test_the_highest_bid_wins_when_the_time_is_up(stand: BehaviourStand) -> None:
    stand.invoke("/auction", "open", item="vase", seconds=60)
    assert refusal(stand, "bid", bidder="ada", amount=9) == {"code": "too_low", "least": "10"}
    stand.invoke("/auction", "bid", bidder="ada", amount=10)
    assert refusal(stand, "bid", bidder="bob", amount=10)["least"] == "15", "of equal bids the first counts"
    stand.invoke("/auction", "bid", bidder="bob", amount=20)
    stand.advance(59.9)
    stand.invoke("/auction", "bid", bidder="eve", amount=25)
    stand.advance(0.2)
    result = {"number": 1, "item": "vase", "winner": "eve", "price": 25}
    assert stand.items("/auction", "results") == [result]
    assert stand.get("/auction", "lot")["open"] is False
    assert refusal(stand, "bid", bidder="late", amount=1000)["code"] == "closed"
    names = [one.key for one in stand.events("/auction", EventType.BEHAVIOUR)]
    assert names == ["lot.opened", "lot.closed"]
    (opened,) = stand.events("/auction/bidding", EventType.GATE_OPENED)
    assert stand.events("/auction", EventType.BEHAVIOUR)[-1].cause == opened.id


def test_bids_of_the_last_moment_count_in_their_order(stand: BehaviourStand) -> None:
    stand.invoke("/auction", "open", item="vase", seconds=1)
    bids = [stand.begin("/auction", "bid", bidder=f"b{number}", amount=100) for number in range(5)]
    assert bids[0].result["bidder"] == "b0"
    for later in bids[1:]:
        with pytest.raises(OperationRefused):
            _ = later.result
    stand.advance(1.0)
    assert stand.items("/auction", "results")[0]["winner"] == "b0"


def test_a_lot_without_bids_has_no_winner_and_the_next_can_be_called(stand: BehaviourStand) -> None:
    stand.invoke("/auction", "open", item="vase", seconds=1)
    assert refusal(stand, "open", item="next", seconds=1)["code"] == "lot_open"
    stand.advance(1.0)
    assert stand.items("/auction", "results")[0]["winner"] is None
    assert stand.invoke("/auction", "open", item="next", seconds=1)["number"] == 2
    stand.invoke("/auction", "bid", bidder="ada", amount=10)
    stand.invoke("/auction", "close")
    assert stand.items("/auction", "results")[1]["winner"] == "ada"
    stand.advance(5.0)
    assert len(stand.items("/auction", "results")) == 2
    assert refusal(stand, "close")["code"] == "closed"


def test_the_deadline_survives_a_restart(stand: BehaviourStand) -> None:
    stand.invoke("/auction", "open", item="vase", seconds=60)
    stand.invoke("/auction", "bid", bidder="ada", amount=10)
    stand.advance(30.0)
    stand.kill_and_restart()
    stand.invoke("/auction", "bid", bidder="bob", amount=15)
    stand.advance(60.0)
    assert [one["winner"] for one in stand.items("/auction", "results")] == ["bob"]


@pytest.mark.parametrize("steps", range(10))
def test_a_kill_at_any_step_between_the_end_and_the_result_loses_neither(stand: BehaviourStand, steps: int) -> None:
    stand.invoke("/auction", "open", item="vase", seconds=1)
    stand.invoke("/auction", "bid", bidder="ada", amount=10)
    clock = stand.engine.clock
    clock.stall(1.0)
    for _ in range(steps):
        clock._ring()
        clock.step()
    stand.kill_and_restart()
    stand.advance(2.0)
    assert [one["winner"] for one in stand.items("/auction", "results")] == ["ada"]
