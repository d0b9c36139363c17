"""Ready agents for the guess game, without I/O: what the game is, how to choose, what to ask a model.

A runtime wraps them: it knows the round and the last winning number, asks a model where a player is
prompted, and reports the number. Whatever is random follows from (seed, agent id, round), never
from the order of calls.
"""

from agent_runtime.agents.ready.answers import NumberAnswer, ReasonedAnswer
from agent_runtime.agents.ready.catalogue import (
    RULE_PLAYERS,
    PlayerParametersError,
    UnknownPlayerError,
    make_rule_player,
)
from agent_runtime.agents.ready.game import GuessGame, find_told_game
from agent_runtime.agents.ready.products import WrongProduct, find_wrong_products
from agent_runtime.agents.ready.prompted import GroupsTold, PromptedPlayer, build_messages
from agent_runtime.agents.ready.rule_players import (
    EquilibriumPlayer,
    LevelK,
    ListedNumbers,
    NoisyLevelK,
    RandomPlayer,
    RulePlayer,
)
from agent_runtime.agents.ready.templates import PromptTemplate, PromptTemplateError, load_template

__all__ = [
    "RULE_PLAYERS",
    "EquilibriumPlayer",
    "GroupsTold",
    "GuessGame",
    "LevelK",
    "ListedNumbers",
    "NoisyLevelK",
    "NumberAnswer",
    "PlayerParametersError",
    "PromptTemplate",
    "PromptTemplateError",
    "PromptedPlayer",
    "RandomPlayer",
    "ReasonedAnswer",
    "RulePlayer",
    "UnknownPlayerError",
    "WrongProduct",
    "build_messages",
    "find_told_game",
    "find_wrong_products",
    "load_template",
    "make_rule_player",
]
