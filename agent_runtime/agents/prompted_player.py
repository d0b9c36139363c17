"""The prompted player of the guess game as an agent: one question a round, one number reported."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from agent_runtime.agents.agent import Agent, GroupInfo
from agent_runtime.agents.guess_game import OpenedRound, read_round
from agent_runtime.agents.memory import ASKED, TOLD, cut_line
from agent_runtime.agents.ready import GroupsTold, GuessGame, PromptedPlayer, load_template, make_rule_player
from agent_runtime.agents.ready.prompted import format_number
from agent_runtime.llm import Message
from agent_runtime.llm.answers import strip_thinking

if TYPE_CHECKING:
    from ecumene.client import Event

    from agent_runtime.agents.ready import PromptTemplate
    from agent_runtime.turns.turn import Turn

PROMPT_DEFAULT = "guess-p1"
PERSONA, BACKGROUND = "persona", "background"
NOTE, GROUPS_PLAY = "note", "groups_play"
_PARAMETERS = frozenset({"prompt", "fallback", NOTE, GROUPS_PLAY})


class PromptedGuesser(Agent):
    """Asks its model for a number in [0, 100] and reports it.

    Parameters: `prompt`, an installed template's name or a template (default `guess-p1`); `fallback`, a
    rule player that decides when the model does not, such as `{"player": "random"}` (default: none); `note`, whether
    the template's note is told; `groups_play`, the names of the groups where groups play: a template may tell of them.
    The persona is the profile's `persona`, or else its `background`, or else all its attributes as text.
    """

    @classmethod
    def check_group(cls, group: GroupInfo) -> None:
        if unknown := group.parameters.keys() - _PARAMETERS:
            raise ValueError(f"prompted-player does not take {', '.join(sorted(unknown))}")
        check_template(load_template(group.parameters.get("prompt", PROMPT_DEFAULT)), group.parameters)
        _make_fallback(group, GuessGame(2 / 3))

    async def on_event(self, event: Event, turn: Turn) -> None:
        opened = read_round(event)
        player = _make_player(_describe_prompt(self.group), opened.game)
        told = tuple(text for text in self.memory.window if text.startswith((TOLD, ASKED)))
        answer = await turn.llm.ask(
            lambda: _add_told(self._build_messages(player, opened), told),
            answer_type=player.answer_type,
        )
        assert isinstance(answer.value, player.answer_type)
        said = answer.text if answer.extract is not None else ""
        for flag in player.find_flags(answer.value, strip_thinking(said)):
            turn.flag(flag)
        turn.report(answer.value.number)
        # For whoever asks later why: no prompt of the game shows it.
        self.memory.remember(_tell_round(opened, answer.value))

    def _build_messages(self, player: PromptedPlayer, opened: OpenedRound) -> tuple[Message, ...]:
        has_note = bool(self.group.parameters.get(NOTE))
        own = self.group.name if opened.groups else ""
        return _build_messages(player, describe_persona(self.profile), opened, own, has_note)

    def fall_back(self, event: Event, turn: Turn, failure: Exception) -> bool:
        opened = read_round(event)
        rule = _make_fallback(self.group, opened.game)
        if rule is None:
            return False
        turn.report(rule.choose(self.id, opened.number, opened.last_winner))
        return True


def check_template(template: PromptTemplate, parameters: Mapping[str, Any]) -> None:
    """Raises ValueError: the parameters of a group ask of its template what it has not."""
    if parameters.get(NOTE) and not template.has_note:
        raise ValueError(f"prompt {template.name} has no part 'note' in its messages")
    if template.tells_of_groups and not parameters.get(GROUPS_PLAY):
        raise ValueError(f"prompt {template.name} tells of groups, which need a game of them (players: groups)")


def describe_persona(profile: Mapping[str, Any]) -> str:
    """A persona as text: as it was written, or a background, or attribute by attribute."""
    if written := profile.get(PERSONA) or profile.get(BACKGROUND):
        return str(written)
    known = (
        (name, value) for name, value in profile.items() if value is not None and name not in (PERSONA, BACKGROUND)
    )
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
def _build_messages(
    player: PromptedPlayer, persona: str, opened: OpenedRound, group: str, has_note: bool
) -> tuple[Message, ...]:
    """Agents of the same persona share their messages instead of building and holding the same again."""
    groups = GroupsTold(group, dict(opened.groups)) if group else None
    return player.build_messages(persona, opened.number, opened.last_winner, groups=groups, has_note=has_note)


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
