"""The script that guess_workflow.py is the port of: for AgentScope 0.1 (`pip install agentscope==0.1.1 tqdm`).

python examples/guess_agentscope.py
"""

from __future__ import annotations

import sys

import agentscope
from agentscope.agents import AgentBase
from agentscope.message import Msg


class Player(AgentBase):
    """Guesses two thirds of what it believes that the others guess."""

    def __init__(self, name: str, belief: float) -> None:
        super().__init__(name)
        self.belief = belief

    def reply(self, x: Msg) -> Msg:
        """Its guess, after what the moderator has announced."""
        self.belief = (self.belief + x.content) / 2
        return Msg(self.name, round(self.belief * 2 / 3, 2), "assistant")


class Moderator(AgentBase):
    """Hears all guesses of a round, and announces their mean with the winners so far."""

    def __init__(self, name: str = "moderator") -> None:
        super().__init__(name)
        self.winners: list[str] = []

    def reply(self, x: list[Msg]) -> Msg:
        """The mean; who was nearest to two thirds of it has won."""
        mean = sum(guess.content for guess in x) / len(x)
        nearest = min(x, key=lambda guess: (abs(guess.content - mean * 2 / 3), guess.name))
        self.winners.append(nearest.name)
        return Msg(self.name, round(mean, 2), "assistant", metadata=list(self.winners))


def play(players: int = 5, rounds: int = 4, *, distributed: bool = True) -> tuple[list[str], float]:
    """The central script."""
    crowd = [Player(f"player-{number}", 100.0 / (number + 1)) for number in range(players)]
    moderator = Moderator()
    if distributed:
        crowd, moderator = [player.to_dist() for player in crowd], moderator.to_dist()
    announced = Msg("moderator", 50.0, "assistant")
    for _ in range(rounds):
        announced = moderator([player(announced) for player in crowd])
    return announced.metadata, announced.content


if __name__ == "__main__":
    agentscope.init(use_monitor=False, save_code=False, save_api_invoke=False, save_log=False)
    winners, mean = play(distributed="local" not in sys.argv[1:])
    for number, winner in enumerate(winners, start=1):
        print(f"round {number}: {winner}")
    print(f"the last mean was {mean:g}")
