"""The guess game: rounds, late and failed reports, the winner, ties, and what outlives a restart."""

from __future__ import annotations

from typing import Any

import pytest

from env_server.behaviours.guess_game import GuessGame
from env_server.model.errors import Reason
from env_server.model.operations import Code, EnvironmentUpdate
from env_server.model.spaces import Grid, Space
from env_server.model.values import Json
from tests.engine import Op, Stand, invoke, new_environment, put

RATIO = 2 / 3


@pytest.fixture
def stand() -> Stand:
    stand = Stand(GuessGame())
    stand.done(new_environment("/game", kind="guess_game"))
    return stand


def play(stand: Stand, name: str, **arguments: Any) -> Any:
    sent = stand.do(invoke("/game", name, **arguments))
    stand.clock.advance(1)
    return sent.invoked.result.document


def report(agent: str, value: Any, generation: int) -> Any:
    return put("/game/reports", agent, value, generation=generation, producer=agent, seq=generation)


def test_a_round_from_its_opening_to_its_winner(stand: Stand) -> None:
    opened = play(stand, "open_round", participants=4)
    assert (opened["round"], opened["generation"], opened["last_winner"]) == (1, 1, None)
    numbers = {"ann": 30.0, "bob": 45, "cid": 60.5}
    stand.done(*[report(agent, number, 1) for agent, number in numbers.items()])
    stand.done(report("dan", None, 1))
    assert stand.do(report("eve", 1.0, 1)).error.reason is Reason.GATE_CLOSED
    closed = play(stand, "close_round", generation=1)
    mean = sum(numbers.values()) / 3
    assert closed["mean"] == pytest.approx(mean, abs=1e-12)
    assert closed["target"] == pytest.approx(RATIO * mean, abs=1e-12)
    assert (closed["winner"], closed["winner_number"], closed["tied"]) == ("ann", 30.0, 1)
    stand.reopen()
    second = play(stand, "open_round", participants=1)
    assert (second["round"], second["generation"]) == (2, 2)
    assert second["last_winner"] == closed["target"]
    assert [row[3] for row in stand.rows() if row[1] == 12] == ["round.opened", "round.closed", "round.opened"]


def test_a_tie_goes_to_the_smallest_name_and_is_counted(stand: Stand) -> None:
    stand.done(new_environment("/half", kind="guess_game", config=Json(b'{"ratio":1.0,"offset":0.0}')))
    stand.done(invoke("/half", "open_round", participants=3))
    for agent, number in {"c": 10, "b": 20, "a": 0}.items():
        stand.done(put("/half/reports", agent, number, generation=1))
    sent = stand.do(invoke("/half", "close_round", generation=1))
    closed = sent.invoked.result.document
    assert (closed["target"], closed["winner"], closed["tied"]) == (10.0, "c", 1)
    stand.done(invoke("/half", "open_round", participants=2))
    for agent, number in {"b": 20, "a": 0}.items():
        stand.done(put("/half/reports", agent, number, generation=2))
    closed = stand.do(invoke("/half", "close_round", generation=2)).invoked.result.document
    assert (closed["target"], closed["winner"], closed["tied"]) == (10.0, "a", 2)


def test_rounds_are_opened_and_closed_in_turn(stand: Stand) -> None:
    assert stand.do(invoke("/game", "close_round", generation=1)).error.metadata["code"] == "no_such_round"
    play(stand, "open_round", participants=9)
    assert stand.do(invoke("/game", "open_round")).error.metadata["code"] == "round_open"
    assert stand.do(invoke("/game", "close_round", generation=2)).error.metadata["code"] == "no_such_round"
    assert stand.do(invoke("/game", "open_round", participants=-1)).error.metadata["code"] == "bad_argument"
    closed = play(stand, "close_round", generation=1)
    assert (closed["mean"], closed["winner"]) == (None, None)
    assert stand.do(report("ann", 1.0, 1)).error.reason is Reason.GATE_CLOSED


def test_a_report_of_the_last_round_is_not_counted_again(stand: Stand) -> None:
    play(stand, "open_round", participants=2)
    stand.done(report("ann", 90.0, 1), report("bob", 90.0, 1))
    play(stand, "close_round", generation=1)
    play(stand, "open_round", participants=1)
    stand.done(report("ann", 30.0, 2))
    closed = play(stand, "close_round", generation=2)
    assert (closed["mean"], closed["winner"]) == (30.0, "ann")


def test_whoever_only_moves_has_not_reported(stand: Stand) -> None:
    play(stand, "open_round", participants=2)
    stand.done(Op("/game/reports", "", Code.UPDATE_ENVIRONMENT, EnvironmentUpdate(space=Space(Grid(4, 4)))))
    stand.done(report("ann", 60.0, 1), report("bob", 40.0, 1))
    assert play(stand, "close_round", generation=1)["winner"] == "bob"
    play(stand, "open_round", participants=1)
    stand.done(Op("/game/reports", "bob", Code.MOVE, (1.0, 1.0)), report("ann", 90.0, 2))
    assert play(stand, "close_round", generation=2)["winner"] == "ann"


GROUPS = Json(b'{"groups":["Llama","Mistral","Qwen"]}')


def open_group_round(stand: Stand, members: dict[str, str]) -> Any:
    stand.done(new_environment("/game", kind="guess_game", config=GROUPS))
    stand.done(new_environment("/game/groups"))
    stand.done(*[put("/game/groups", agent, group) for agent, group in members.items()])
    return play(stand, "open_round", participants=0)


def test_where_groups_play_each_counts_once_however_many_its_members_are() -> None:
    stand = Stand(GuessGame())
    members = {"a": "Llama", "b": "Llama", "c": "Llama", "d": "Mistral", "e": "Qwen", "f": "Qwen"}
    opened = open_group_round(stand, members)
    assert opened["groups"] == {"Llama": None, "Mistral": None, "Qwen": None}
    numbers = {"a": 30.0, "b": 40, "c": 48.08, "d": 21.14, "e": 40.75, "f": None, "stranger": 100.0}
    stand.done(*[report(agent, number, 1) for agent, number in numbers.items()])
    closed = play(stand, "close_round", generation=1)
    assert closed["groups"] == pytest.approx({"Llama": 39.36, "Mistral": 21.14, "Qwen": 40.75})
    assert closed["target"] == pytest.approx(22.50, abs=1e-9)
    assert (closed["winner"], closed["winner_number"], closed["tied"]) == ("Mistral", 21.14, 1)
    assert (closed["reported"], closed["failed"]) == (6, 1)
    stand.reopen()
    second = play(stand, "open_round", participants=1)
    assert second["groups"] == closed["groups"]
    assert second["last_winner"] == closed["target"]


def test_a_group_of_which_nobody_has_a_number_is_left_out() -> None:
    stand = Stand(GuessGame())
    open_group_round(stand, {"a": "Llama", "b": "Mistral"})
    stand.done(report("a", 60.0, 1), report("b", None, 1))
    closed = play(stand, "close_round", generation=1)
    assert closed["groups"] == {"Llama": 60.0, "Mistral": None, "Qwen": None}
    assert (closed["mean"], closed["winner"]) == (60.0, "Llama")
    play(stand, "open_round")
    closed = play(stand, "close_round", generation=2)
    assert closed["groups"] == dict.fromkeys(("Llama", "Mistral", "Qwen"))
    assert (closed["mean"], closed["target"], closed["winner"]) == (None, None, None)


def test_of_groups_that_are_equally_near_the_first_by_name_wins() -> None:
    stand = Stand(GuessGame())
    open_group_round(stand, {"a": "Qwen", "b": "Mistral"})
    stand.done(report("a", 9.0, 1), report("b", 9.0, 1))
    closed = play(stand, "close_round", generation=1)
    assert (closed["winner"], closed["tied"]) == ("Mistral", 2)


@pytest.mark.parametrize("membership", [7, None, "Nobody"])
def test_whoever_is_written_into_no_group_of_the_game_counts_for_the_gate_alone(membership: Any) -> None:
    stand = Stand(GuessGame())
    open_group_round(stand, {"a": "Qwen", "b": membership})
    stand.done(report("a", 9.0, 1), report("b", 90.0, 1))
    closed = play(stand, "close_round", generation=1)
    assert (closed["mean"], closed["reported"]) == (9.0, 2)


def test_best_responses_lead_from_50_over_30_to_10_where_5_is_added(stand: Stand) -> None:
    stand.done(new_environment("/five", kind="guess_game", config=Json(b'{"ratio":0.5,"offset":5.0}')))
    number, chain = 50.0, []
    for generation in range(1, 60):
        stand.done(invoke("/five", "open_round", participants=1))
        stand.done(put("/five/reports", "ann", number, generation=generation))
        number = stand.do(invoke("/five", "close_round", generation=generation)).invoked.result.document["target"]
        chain.append(number)
    assert chain[:5] == [30.0, 20.0, 15.0, 12.5, 11.25]
    assert chain[-1] == pytest.approx(10.0, abs=1e-12)
