"""Rule players are made by name, and a wrong spec is told what is wrong."""

from __future__ import annotations

from typing import Any

import pytest

from agent_runtime.agents.ready import (
    RULE_PLAYERS,
    GuessGame,
    PlayerParametersError,
    UnknownPlayerError,
    make_rule_player,
)

GAME = GuessGame(2 / 3)
PARAMETERS: dict[str, dict[str, Any]] = {
    "level-k": {"level": 2},
    "equilibrium": {},
    "noisy-level-k": {"level": 1, "deviation": 5.0},
    "listed": {"numbers": [32.91, 17.58]},
    "random": {},
}


def test_every_rule_player_is_made_by_its_name() -> None:
    assert RULE_PLAYERS.keys() == PARAMETERS.keys()
    for name, parameters in PARAMETERS.items():
        player = make_rule_player(name, parameters, GAME, seed=1)
        assert player.name == name
        assert 0 <= player.choose("agent-000001", 1, None) <= 100


def test_an_unknown_name_is_told_the_known_ones() -> None:
    with pytest.raises(UnknownPlayerError, match="equilibrium, level-k, listed, noisy-level-k, random"):
        make_rule_player("level_k", {}, GAME, seed=1)


@pytest.mark.parametrize(
    ("name", "parameters", "problem"),
    [
        ("level-k", {}, "needs level"),
        ("level-k", {"level": -1}, "must not be negative"),
        ("level-k", {"level": "two"}, "not supported"),
        ("equilibrium", {"level": 1}, "does not take level"),
        ("noisy-level-k", {"level": 1}, "needs deviation"),
        ("listed", {}, "needs numbers"),
        ("listed", {"numbers": []}, "a list of numbers from 0 to 100"),
        ("listed", {"numbers": [101]}, "a list of numbers from 0 to 100"),
        ("listed", {"numbers": 5}, "not"),
        ("random", {"seed": 1}, "does not take seed"),
    ],
)
def test_wrong_parameters_are_named(name: str, parameters: dict[str, Any], problem: str) -> None:
    with pytest.raises(PlayerParametersError, match=problem):
        make_rule_player(name, parameters, GAME, seed=1)
