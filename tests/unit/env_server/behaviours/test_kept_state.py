"""Clients may write where a behaviour keeps its state: what they put there fails the op that meets it, as theirs."""

from __future__ import annotations

from typing import Any

import pytest

from env_server.behaviours.auction import Auction
from env_server.behaviours.chat_room import ChatRoom
from env_server.behaviours.guess_game import GuessGame
from env_server.behaviours.market import Market
from env_server.model.errors import InternalError, OperationRefused
from env_server.model.frames import Invoked
from env_server.model.operations import Code, EnvironmentUpdate
from env_server.model.values import Json, Value
from tests.engine import Op, Stand, drop, invoke, new_environment, put

PLACE = {"trader": "t", "good": "g", "price": 1, "quantity": 1}
CALLS: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "auction": [("open", {"item": "a", "seconds": 5}), ("bid", {"bidder": "b", "amount": 5}), ("close", {})],
    "market": [
        ("deposit", {"trader": "t", "cash": 5, "goods": {"g": 3}}),
        ("place", {**PLACE, "side": "buy"}),
        ("place", {**PLACE, "side": "sell"}),
        ("cancel", {"trader": "t", "good": "g", "order": 1}),
        ("account", {"trader": "t"}),
        ("book", {"good": "g"}),
        ("withdraw", {"trader": "t", "cash": 1}),
    ],
    "chat_room": [
        ("join", {"member": "m"}),
        ("speak", {"member": "m", "text": "x"}),
        ("history", {"member": "m", "after": 2**70}),
        ("history", {"member": "m"}),
        ("leave", {"member": "m"}),
    ],
    "guess_game": [("open_round", {}), ("close_round", {"generation": 1}), ("open_round", {})],
}
KEYS = {
    "auction": ["lot", "bids", "results"],
    "market": ["account.t", "book.g", "last_order", "trades"],
    "chat_room": ["member.m", "history"],
    "guess_game": ["round", "history"],
}
FOREIGN: list[Value] = [
    *(5, 2**63 - 1, -0.0, True, "x", b"zz", None),
    *(
        Json(text)
        for text in (b"[]", b"{}", b"null", b'{"open":true}', b"1" * 5000, b'{"since":1e300}', b'{"since":"q"}')
    ),
    Json(b'{"number":"x","open":false}'),
    Json(b'{"number":1,"item":"i","open":true,"generation":1,"best":{"bidder":1}}'),
    Json(b'{"cash":"x","goods":[]}'),
    Json(b'{"cash":1.5,"goods":{"g":true}}'),
    Json(b'{"bids":[[1]],"asks":5}'),
    Json(b'{"bids":[[0,1,"t",1]],"asks":[[1,1,"t",-1]]}'),
    Json(b'{"round":"x","generation":1,"open":true}'),
]
CONFIGS = [b"[]", b"5", b"null", b'{"reserve":"x","ratio":"x"}', b'{"step":[],"offset":null}', b'{"ratio":1e300}']


def new_stand(kind: str) -> Stand:
    stand = Stand(Auction(), ChatRoom(), GuessGame(), Market())
    stand.done(new_environment("/e", kind=kind))
    return stand


@pytest.mark.parametrize("kind", CALLS)
def test_foreign_state_is_no_defect_of_the_server(kind: str) -> None:
    refused = 0
    for key in KEYS[kind]:
        for value in FOREIGN:
            stand = new_stand(kind)
            for name, arguments in CALLS[kind][:2]:
                stand.do(invoke("/e", name, **arguments))
            stand.do(drop("/e", key), put("/e", key, value))
            for name, arguments in CALLS[kind]:
                outcome = stand.do(invoke("/e", name, **arguments)).outcome()
                assert not isinstance(outcome, InternalError), (key, value, name)
                refused += isinstance(outcome, OperationRefused) and outcome.metadata["code"] == "foreign_state"
    assert refused > 10


@pytest.mark.parametrize("kind", CALLS)
@pytest.mark.parametrize("config", CONFIGS)
def test_a_config_of_another_form_is_no_defect_of_the_server(kind: str, config: bytes) -> None:
    stand = new_stand(kind)
    stand.do(Op("/e", "", Code.UPDATE_ENVIRONMENT, EnvironmentUpdate(merge_config=Json(config))))
    for name, arguments in CALLS[kind]:
        assert not isinstance(stand.do(invoke("/e", name, **arguments)).outcome(), InternalError), name


def test_a_game_whose_reports_lost_what_it_needs_is_refused() -> None:
    for update in (EnvironmentUpdate(remove_aggregates=("mean",)), EnvironmentUpdate(remove_gates=("round",))):
        stand = new_stand("guess_game")
        stand.done(invoke("/e", "open_round"), Op("/e/reports", "", Code.UPDATE_ENVIRONMENT, update))
        error = stand.do(invoke("/e", "close_round", generation=1)).error
        assert isinstance(error, OperationRefused)
        assert error.metadata["code"] == "no_reports"


def test_an_average_beyond_all_numbers_has_no_winner() -> None:
    stand = new_stand("guess_game")
    stand.done(Op("/e", "", Code.UPDATE_ENVIRONMENT, EnvironmentUpdate(merge_config=Json(b'{"ratio":1e100}'))))
    stand.done(invoke("/e", "open_round"), put("/e/reports", "a", 1e300, generation=1))
    closed = stand.do(invoke("/e", "close_round", generation=1)).outcome()
    assert isinstance(closed, Invoked)
    assert closed.result.document["winner"] is None
