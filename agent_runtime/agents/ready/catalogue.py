"""Rule players by name, as specs name them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from agent_runtime.agents.ready.game import GuessGame
from agent_runtime.agents.ready.rule_players import (
    EquilibriumPlayer,
    LevelK,
    ListedNumbers,
    NoisyLevelK,
    RandomPlayer,
    RulePlayer,
)

# Name -> (parameters, how to make one from them).
RULE_PLAYERS: Mapping[str, tuple[frozenset[str], Callable[..., RulePlayer]]] = {
    LevelK.name: (frozenset({"level"}), lambda game, seed, level: LevelK(game, level)),
    EquilibriumPlayer.name: (frozenset(), lambda game, seed: EquilibriumPlayer(game)),
    NoisyLevelK.name: (
        frozenset({"level", "deviation"}),
        lambda game, seed, level, deviation: NoisyLevelK(game, level, deviation, seed),
    ),
    ListedNumbers.name: (frozenset({"numbers"}), lambda game, seed, numbers: ListedNumbers(numbers)),
    RandomPlayer.name: (frozenset(), lambda game, seed: RandomPlayer(seed)),
}


class UnknownPlayerError(ValueError):
    """No rule player has this name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"no rule player is called {name!r}; there are {', '.join(sorted(RULE_PLAYERS))}")
        self.name = name


class PlayerParametersError(ValueError):
    """Parameters that a rule player does not take, lacks, or cannot use."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"{name}: {problem}")
        self.name = name
        self.problem = problem


def make_rule_player(name: str, parameters: Mapping[str, Any], game: GuessGame, seed: int) -> RulePlayer:
    """The rule player of a name; one serves all agents of a group.

    Raises UnknownPlayerError, PlayerParametersError.
    """
    if name not in RULE_PLAYERS:
        raise UnknownPlayerError(name)
    wanted, make = RULE_PLAYERS[name]
    if missing := wanted - parameters.keys():
        raise PlayerParametersError(name, f"needs {', '.join(sorted(missing))}")
    if unknown := parameters.keys() - wanted:
        raise PlayerParametersError(name, f"does not take {', '.join(sorted(unknown))}")
    try:
        return make(game, seed, **parameters)
    except (TypeError, ValueError) as error:
        raise PlayerParametersError(name, str(error)) from error
