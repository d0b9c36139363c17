"""The prompted player of the guess game as an agent: one question a round, one number reported."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from agent_runtime.agents.agent import Agent, GroupInfo
from agent_runtime.agents.guess_game import OpenedRound, read_round
from agent_runtime.agents.memory import ASKED, TOLD, cut_line
from agent_runtime.agents.ready import GuessGame, PromptedPlayer, load_template, make_rule_player
from agent_runtime.agents.ready.prompted import format_number
from agent_runtime.llm import Message
from agent_runtime.llm.answers import strip_thinking

if TYPE_CHECKING:
    from ecumene.client import Event

    from agent_runtime.turns.turn import Turn

PROMPT_DEFAULT = "guess-p1"
PERSONA = "persona"
_PARAMETERS = frozenset({"prompt", "fallback"})


class PromptedGuesser(Agent):
    """Asks its model for a number in [0, 100] and reports it.

    Parameters: `prompt`, an installed template's name or a template (default `guess-p1`); `fallback`, a
    rule player that decides when the model does not, such as `{"player": "random"}` (default: none).
    The persona is the profile's `persona`, or else all its attributes as text.
    """

    @classmethod
    def check_group(cls, group: GroupInfo) -> None:
        if unknown := group.parameters.keys() - _PARAMETERS:
            raise ValueError(f"prompted-player does not take {', '.join(sorted(unknown))}")
        load_template(group.parameters.get("prompt", PROMPT_DEFAULT))
        _make_fallback(group, GuessGame(2 / 3))

    async def on_event(self, event: Event, turn: Turn) -> None:
        opened = read_round(event)
        player = _make_player(_describe_prompt(self.group), opened.game)
        told = tuple(text for text in self.memory.window if text.startswith((TOLD, ASKED)))
        answer = await turn.llm.ask(
            lambda: _add_told(_build_messages(player, describe_persona(self.profile), opened), told),
            answer_type=player.answer_type,
        )
        assert isinstance(answer.value, player.answer_type)
        said = answer.text if answer.extract is not None else ""
        for flag in player.find_flags(answer.value, strip_thinking(said)):
            turn.flag(flag)
        turn.report(answer.value.number)
        # For whoever asks later why: no prompt of the game shows it.
        self.memory.remember(_tell_round(opened, answer.value))

    def fall_back(self, event: Event, turn: Turn, failure: Exception) -> bool:
        opened = read_round(event)
        rule = _make_fallback(self.group, opened.game)
        if rule is None:
            return False
        turn.report(rule.choose(self.id, opened.number, opened.last_winner))
        return True


def describe_persona(profile: Mapping[str, Any]) -> str:
    """A persona as text: as it was written, or attribute by attribute."""
    if persona := profile.get(PERSONA):
        return str(persona)
    known = ((name, value) for name, value in profile.items() if value is not None and name != PERSONA)
    return "; ".join(f"{name.replace('_', ' ')}: {value}" for name, value in known)


def _tell_round(opened: OpenedRound, answer: Any) -> str:
    """What a player did in a round, for its memory."""
    rule = f"In round {opened.number} the number nearest to {opened.game.describe_target()} was to win"
    last = "" if opened.last_winner is None else f"; the last winning number was {format_number(opened.last_winner)}"
    reasoning = getattr(answer, "reasoning", "")
    thought = f" You thought: {cut_line(reasoning)}" if reasoning else ""
    return f"{rule}{last}. You named {format_number(answer.number)}.{thought}"


def _describe_prompt(group: GroupInfo) -> str:
    """A template's name, or the template as text: either can be a key of what was made before."""
    source = group.parameters.get("prompt", PROMPT_DEFAULT)
    return source if isinstance(source, str) else json.dumps(source)


@lru_cache(maxsize=64)
def _make_player(prompt: str, game: GuessGame) -> PromptedPlayer:
    return PromptedPlayer(load_template(json.loads(prompt) if prompt.startswith("{") else prompt), game)


@lru_cache(maxsize=256)
def _build_messages(player: PromptedPlayer, persona: str, opened: OpenedRound) -> tuple[Message, ...]:
    """Agents of the same persona share their messages instead of building and holding the same again."""
    return player.build_messages(persona, opened.number, opened.last_winner)


def _add_told(messages: tuple[Message, ...], told: tuple[str, ...]) -> tuple[Message, ...]:
    """With what the player was told from outside, at the end of the last message."""
    if not told:
        return messages
    last = messages[-1]
    return (*messages[:-1], Message(last.role, "\n\n".join((last.content, *told))))


def _make_fallback(group: GroupInfo, game: GuessGame) -> Any:
    fallback = group.parameters.get("fallback")
    if fallback is None:
        return None
    if not isinstance(fallback, Mapping) or "player" not in fallback:
        raise ValueError('fallback names a rule player: {"player": "random"}')
    rest = {name: value for name, value in fallback.items() if name != "player"}
    return make_rule_player(str(fallback["player"]), rest, game, group.seed)
