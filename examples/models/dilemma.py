"""The repeated prisoner's dilemma, everybody against everybody: twelve strategies, each an agent with a memory.

python examples/models/dilemma.py --seeds 30

All matches are played side by side, a turn of each a step. Strategies without chance have scores that are known
exactly: those of the same tournament in the package `axelrod`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from playing import main
from stage import Known, find_place, name_agents

from agent_runtime.agents.agent import Agent, GroupInfo
from agent_runtime.model.draws import Draw

if TYPE_CHECKING:
    from ecumene import Event
    from ecumene.sim.steps import Steps

    from agent_runtime.turns.turn import Turn

KEPT = Path(__file__).with_suffix(".json")
COOPERATE, DEFECT, NOBODY = "C", "D", "-"
PAY = {"CC": 3, "CD": 0, "DC": 5, "DD": 1}
"""What the first of both gets."""


@dataclass(frozen=True, slots=True)
class Match:
    """What an agent knows of its match with one other."""

    turn: int
    """From 1."""
    mine: str
    """Its own last move; "" in the first turn."""
    theirs: str
    """The other's last two moves, or as many as there were."""
    betrayed: bool
    """Whether the other has ever defected."""
    draw: Draw


def _play_tit_for_tat(match: Match) -> str:
    return match.theirs[-1:] or COOPERATE


def _play_suspicious(match: Match) -> str:
    return match.theirs[-1:] or DEFECT


def _play_tit_for_two_tats(match: Match) -> str:
    return DEFECT if match.theirs == DEFECT * 2 else COOPERATE


def _play_two_tits_for_tat(match: Match) -> str:
    return DEFECT if DEFECT in match.theirs else COOPERATE


def _stay_if_won(match: Match) -> str:
    """Cooperates after both did the same, and defects after they did not."""
    return COOPERATE if match.mine == match.theirs[-1:] else DEFECT


def _cycle(match: Match) -> str:
    return DEFECT if match.turn % 3 == 0 else COOPERATE


STRATEGIES: Mapping[str, Callable[[Match], str]] = {
    "Cooperator": lambda match: COOPERATE,
    "Defector": lambda match: DEFECT,
    "TitForTat": _play_tit_for_tat,
    "SuspiciousTitForTat": _play_suspicious,
    "TitFor2Tats": _play_tit_for_two_tats,
    "TwoTitsForTat": _play_two_tits_for_tat,
    "Grudger": lambda match: DEFECT if match.betrayed else COOPERATE,
    "WinStayLoseShift": _stay_if_won,
    "Alternator": lambda match: DEFECT if match.turn % 2 == 0 else COOPERATE,
    "CyclerCCD": _cycle,
    "AntiTitForTat": lambda match: DEFECT if match.theirs[-1:] == COOPERATE else COOPERATE,
    "Random": lambda match: COOPERATE if match.draw.random() < 0.5 else DEFECT,
}
"""By the names that `axelrod` has for them."""


class Prisoner(Agent):
    """Says its moves, one against each place: a line of C and D, with - at its own.

    It sees all moves of the last turn, and remembers of each other what `Match` needs. Parameter `strategies`: one for
    each place.
    """

    @classmethod
    def check_group(cls, group: GroupInfo) -> None:
        """Refuses strategies that are none."""
        if unknown := set(group.parameters["strategies"]) - STRATEGIES.keys():
            raise ValueError(f"no strategies: {', '.join(sorted(unknown))}")

    async def on_event(self, event: Event, turn: Turn) -> None:
        """Remember what the others did, then move."""
        told: Any = event.value
        strategies = self.group.parameters["strategies"]
        me = find_place(self.id)
        known: Any = self.memory.find_fact("matches") if told["round"] > 1 else None
        matches = known or [["", "", False] for _ in strategies]
        moves = ""
        for other in range(len(strategies)):
            if other == me:
                moves += NOBODY
                continue
            mine, theirs, betrayed = matches[other]
            if told["round"] > 1:
                last = told["moves"][other][me]
                theirs, betrayed = (theirs + last)[-2:], betrayed or last == DEFECT
            draw = Draw(told["seed"], self.id, told["round"], other)
            move = STRATEGIES[strategies[me]](Match(told["round"], mine, theirs, betrayed, draw))
            matches[other] = [move, theirs, betrayed]
            moves += move
        self.memory.keep_fact("matches", matches)
        turn.report(moves)


class Dilemma:
    """A round robin of matches of `turns` turns. Agents remember one run: seeds are played one after the other."""

    agent = "dilemma:Prisoner"
    meanings: Mapping[str, str] = {
        "each strategy": "its points a turn and opponent; 3 if both cooperate, 1 if neither does, 5 and 0 if one does",
    }
    resumable = True

    def __init__(
        self, turns: int = 200, strategies: tuple[str, ...] = tuple(STRATEGIES), name: str = "dilemma"
    ) -> None:
        self.name = name
        self.turns = turns
        self.strategies = strategies
        self.agents = name_agents(name, len(strategies))
        self.parameters = {"strategies": strategies}

    async def play(self, steps: Steps) -> dict[str, float]:
        """All turns; the score of each strategy, a turn and opponent."""
        moves: list[str] = []
        scores = [0] * len(self.agents)
        while steps.number < self.turns:
            moves = await self.take_turn(steps, moves, scores)
        return self.rate(scores)

    async def take_turn(self, steps: Steps, moves: list[str], scores: list[int]) -> list[str]:
        """The moves of the next turn, told those of the last one; adds what it pays to the scores."""
        said = [str(line) for line in (await steps.take({"moves": moves})).values()]
        for me, line in enumerate(said):
            scores[me] += sum(PAY[move + said[other][me]] for other, move in enumerate(line) if other != me)
        return said

    def rate(self, scores: list[int]) -> dict[str, float]:
        """Scores a turn and opponent, by strategy."""
        matches = self.turns * (len(self.agents) - 1)
        return {name: score / matches for name, score in zip(self.strategies, scores, strict=True)}

    def list_known(self) -> dict[str, Known]:
        """The scores that the package has for such a round robin, where they were kept (dilemma.json)."""
        kept = json.loads(KEPT.read_text(encoding="utf-8"))
        for robin in kept["round_robins"]:
            if (tuple(robin["strategies"]), robin["turns"]) == (self.strategies, self.turns):
                source = f"{kept['source']}, {robin['tournaments']} times"
                return {name: Known(mean, deviation, source) for name, (mean, deviation) in robin["scores"].items()}
        return {}


if __name__ == "__main__":
    main(Dilemma())
