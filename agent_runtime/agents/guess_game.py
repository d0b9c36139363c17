"""Rule players of the guess game as groups of agents, and what a round's event says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ecumene.client import Event

from agent_runtime.agents.agent import GroupInfo, RuleAgents
from agent_runtime.agents.ready import GuessGame, RulePlayer, make_rule_player


@dataclass(frozen=True, slots=True)
class OpenedRound:
    """What `round.opened` tells: which game, which round (from 1), and the last winning number, if any.

    `groups`: where groups play, each with its number in the last round, None if it had none.
    """

    game: GuessGame
    number: int
    last_winner: float | None
    groups: tuple[tuple[str, float | None], ...] = ()


def read_round(event: Event) -> OpenedRound:
    """The round that an event opens. Raises ValueError if the event opens none."""
    document = event.value
    if not isinstance(document, dict):
        raise ValueError(f"event {event.key!r} of {event.path} opens no round")
    try:
        game = GuessGame(float(document["ratio"]), float(document.get("offset") or 0.0))  # type: ignore[arg-type]
        last_winner = document.get("last_winner")
        groups: dict[str, float | None] = document.get("groups") or {}  # type: ignore[assignment]
        return OpenedRound(
            game,
            int(document["round"]),  # type: ignore[arg-type]
            None if last_winner is None else float(last_winner),  # type: ignore[arg-type]
            tuple((name, None if last is None else float(last)) for name, last in groups.items()),
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"event {event.key!r} of {event.path} opens no round: {error!r}") from error


class _RulePlayers(RuleAgents):
    """One rule for all agents of a group."""

    player: ClassVar[str]

    def __init__(self, group: GroupInfo) -> None:
        super().__init__(group)
        self._game = GuessGame(2 / 3)
        self._rule = self._make_rule(self._game)

    def decide_many(self, agent_ids: Sequence[str], event: Event) -> Sequence[float]:
        opened = read_round(event)
        if opened.game != self._game:
            self._game, self._rule = opened.game, self._make_rule(opened.game)
        return self._rule.choose_many(agent_ids, opened.number, opened.last_winner)

    def _make_rule(self, game: GuessGame) -> RulePlayer:
        return make_rule_player(self.player, self.group.parameters, game, self.group.seed)


class LevelKAgents(_RulePlayers):
    """Parameters: `level`."""

    player = "level-k"


class EquilibriumAgents(_RulePlayers):
    """No parameters."""

    player = "equilibrium"


class NoisyLevelKAgents(_RulePlayers):
    """Parameters: `level`, `deviation`."""

    player = "noisy-level-k"


class ListedAgents(_RulePlayers):
    """Parameters: `numbers`."""

    player = "listed"


class RandomAgents(_RulePlayers):
    """No parameters."""

    player = "random"
