"""Answers of scripted models, for prompted players and writers without a model: `answers` of a model's settings."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from agent_runtime.agents.ready import GuessGame, NumberAnswer, ReasonedAnswer
from agent_runtime.agents.ready.backgrounds import BackgroundAnswer
from agent_runtime.llm.requests import ModelRequest
from agent_runtime.model.draws import Draw

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
_LAST_WINNER = re.compile(r"winning number was (-?[\d.]+\d)")


def guess_number(request: ModelRequest, draw: Draw) -> NumberAnswer | ReasonedAnswer | dict[str, Any] | str:
    """A player of mixed sophistication in the game of two thirds; reads the last winner from the prompt.

    Anything else that is asked, by interviews and surveys say, is made up within its shape, and its texts say so.
    """
    if request.answer_type is BackgroundAnswer:
        return describe_person(request, draw)
    if request.answer_type is not None and request.answer_type not in (NumberAnswer, ReasonedAnswer):
        return make_up(request.answer_type, draw)
    if request.answer_type is None and request.phase == "interview":
        return _MADE_UP
    told = _LAST_WINNER.search("\n".join(message.content for message in request.messages))
    reference = _GAME.find_reference(float(told[1]) if told else None)
    level = draw.choice(_LEVELS)
    number = round(min(100.0, max(0.0, _GAME.respond(reference, level) + draw.uniform(-2.0, 2.0))), 2)
    if request.answer_type is ReasonedAnswer:
        return ReasonedAnswer(reasoning=f"I expect {reference:.2f} and think {level} steps.", number=number)
    return NumberAnswer(number=number)


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
