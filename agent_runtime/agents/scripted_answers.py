"""Answers of scripted models, for prompted players without a model: `answers` of a model's settings."""

from __future__ import annotations

import re

from agent_runtime.agents.ready import GuessGame, NumberAnswer, ReasonedAnswer
from agent_runtime.llm.requests import ModelRequest
from agent_runtime.model.draws import Draw

_GAME = GuessGame(2 / 3)
_LEVELS = (0, 1, 1, 2, 2, 3)
_LAST_WINNER = re.compile(r"winning number was (-?[\d.]+\d)")


def guess_number(request: ModelRequest, draw: Draw) -> NumberAnswer | ReasonedAnswer:
    """A player of mixed sophistication in the game of two thirds; reads the last winner from the prompt."""
    told = _LAST_WINNER.search("\n".join(message.content for message in request.messages))
    reference = _GAME.find_reference(float(told[1]) if told else None)
    level = draw.choice(_LEVELS)
    number = round(min(100.0, max(0.0, _GAME.respond(reference, level) + draw.uniform(-2.0, 2.0))), 2)
    if request.answer_type is ReasonedAnswer:
        return ReasonedAnswer(reasoning=f"I expect {reference:.2f} and think {level} steps.", number=number)
    return NumberAnswer(number=number)
