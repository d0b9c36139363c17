"""Answers of scripted models, for prompted players and writers without a model: `answers` of a model's settings.

They know of the game what their prompt tells: its target, the round, and the last winning number.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from pydantic import BaseModel

from agent_runtime.agents.ready import (
    GuessGame,
    NumberAnswer,
    ReasonedAnswer,
    RulePlayer,
    find_told_game,
    make_rule_player,
)
from agent_runtime.agents.ready.backgrounds import BackgroundAnswer
from agent_runtime.agents.registry import find_function
from agent_runtime.llm.answers.reading import read_object
from agent_runtime.llm.providers.scripted import AnswerFunction
from agent_runtime.llm.requests import ModelRequest
from agent_runtime.model.draws import Draw
from agent_runtime.model.errors import LaunchError

_GAME = GuessGame(2 / 3)
_LEVELS = (0, 1, 1, 2, 2, 3)
_SCALE = (0, 10)
"""Of made-up numbers for which nobody has given bounds."""
_MADE_UP = "Made up: no model was asked."
_NAMES = (
    ("Ada", "Bo", "Cem", "Dora", "Emil", "Fay", "Gus", "Hana", "Ivo", "Jia", "Kofi", "Lea"),
    (*("Ash", "Birk", "Cole", "Dorn", "Elm", "Finch", "Gray", "Hill", "Isle", "Jones", "Koch", "Lund"),),
)
_TRAITS = (
    *("likes quiet mornings", "collects old maps", "talks with everybody", "saves every penny", "sings in a choir"),
    *("distrusts all experts", "plans far ahead", "decides in a moment", "walks to work", "cooks for neighbours"),
    *("repairs what breaks", "reads two papers a day", "keeps bees", "hates to lose", "never bets"),
)
_LAST_WINNER = re.compile(r"winning number was (-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)")
_ROUND = re.compile(r"\bRound (\d+)\b")
PLAYER = "player"


def find_answers(answers: str | Mapping[str, Any], where: str, seed: int) -> AnswerFunction:
    """What answers for a scripted model: a function, or a rule; empty = `guess_number`. Raises LaunchError."""
    if not answers:
        return guess_number
    if isinstance(answers, str):
        return find_function(answers, where)
    try:
        return RuleAnswers(answers, seed)
    except ValueError as error:
        raise LaunchError(where, str(error)) from error


def guess_number(request: ModelRequest, draw: Draw) -> NumberAnswer | ReasonedAnswer | dict[str, Any] | str:
    """A player of mixed sophistication; reads the game, of two thirds unless told, and the last winner from the prompt.

    Anything else that is asked, by interviews and surveys say, is made up within its shape, and its texts say so.
    """
    if (other := _answer_otherwise(request, draw)) is not None:
        return other
    told = _read_told(request)
    reference = told.game.find_reference(told.last_winner)
    level = draw.choice(_LEVELS)
    number = round(min(100.0, max(0.0, told.game.respond(reference, level) + draw.uniform(-2.0, 2.0))), 2)
    return _give(request, number, f"I expect {reference:.2f} and think {level} steps.")


class RuleAnswers:
    """Answers by a rule player, such as `{"player": "level-k", "level": 1}`; what else is asked as `guess_number`.

    Called with a request and its draw. Raises ValueError when it is made if there is no such player.
    """

    def __init__(self, parameters: Mapping[str, Any], seed: int) -> None:
        self._name = str(parameters.get(PLAYER))
        self._parameters = {name: value for name, value in parameters.items() if name != PLAYER}
        self._seed = seed
        self._make_player = lru_cache(maxsize=64)(self._make)
        self._make(_GAME)

    def __call__(self, request: ModelRequest, draw: Draw) -> NumberAnswer | ReasonedAnswer | dict[str, Any] | str:
        if (other := _answer_otherwise(request, draw)) is not None:
            return other
        told = _read_told(request)
        number = self._make_player(told.game).choose(request.agent_id, told.round_number, told.last_winner)
        return _give(request, number, f"I follow the rule {self._name}.")

    def _make(self, game: GuessGame) -> RulePlayer:
        return make_rule_player(self._name, self._parameters, game, self._seed)


class _Told(NamedTuple):
    """What a prompt of the game tells."""

    game: GuessGame
    round_number: int
    last_winner: float | None


def _read_told(request: ModelRequest) -> _Told:
    text = "\n".join(message.content for message in request.messages)
    number, last = _ROUND.search(text), _LAST_WINNER.search(text)
    game = find_told_game(text) or _GAME
    return _Told(game, int(number[1]) if number else request.turn, float(last[1]) if last else None)


def _answer_otherwise(request: ModelRequest, draw: Draw) -> dict[str, Any] | str | None:
    """The answer to what is no move of the game, or has been answered before; None if it is one."""
    if request.answer_type is BackgroundAnswer:
        return describe_person(request, draw)
    if request.answer_type is not None and request.answer_type not in (NumberAnswer, ReasonedAnswer):
        return make_up(request.answer_type, draw)
    if request.answer_type is None and request.phase == "interview":
        return _MADE_UP
    if request.step and request.answer_type is not None:
        said = request.messages[-1].content
        try:
            return read_object(said, request.answer_type).model_dump()
        except ValueError:
            return said
    return None


def _give(request: ModelRequest, number: float, reasoning: str) -> NumberAnswer | ReasonedAnswer:
    """A number in the form that is asked for; where any will do, with its reasoning."""
    if request.answer_type is NumberAnswer:
        return NumberAnswer(number=number)
    return ReasonedAnswer(reasoning=reasoning, number=number)


def describe_person(request: ModelRequest, draw: Draw) -> dict[str, Any]:
    """A background by chance, which tells the attributes of the question, and that nobody wrote it."""
    asked = request.messages[1].content
    attributes = json.loads(asked[asked.index("{") : asked.index("}") + 1])
    name = " ".join(draw.choice(names) for names in _NAMES)
    told = "; ".join(f"{attribute}: {value}" for attribute, value in attributes.items())
    traits = ", ".join(draw.choice(_TRAITS) for _ in range(5))
    return {"name": name, "background": f"{name} {traits}. {told}. {_MADE_UP}"}


def make_up(answer_type: type[BaseModel], draw: Draw) -> dict[str, Any]:
    """Values by chance for each property; one of another form than text, number, boolean or choice is left out."""
    properties = answer_type.model_json_schema().get("properties", {})
    made = {name: _make_up_value(schema, draw) for name, schema in properties.items()}
    return {name: value for name, value in made.items() if value is not None}


def _make_up_value(schema: Mapping[str, Any], draw: Draw) -> str | bool | int | float | None:
    choices: list[str | int] = schema.get("enum", [schema["const"]] if "const" in schema else [])
    if choices:
        return draw.choice(choices)
    kind = schema.get("type")
    if kind == "boolean":
        return draw.random() < 0.5
    if kind in ("integer", "number"):
        low = schema.get("minimum", min(_SCALE[0], schema.get("maximum", _SCALE[0])))
        high = schema.get("maximum", max(_SCALE[1], low))
        return low + draw.randrange(high - low + 1) if kind == "integer" else round(draw.uniform(low, high), 2)
    return _MADE_UP[: schema.get("maxLength")] if kind == "string" else None
