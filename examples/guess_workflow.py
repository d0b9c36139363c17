"""guess_agentscope.py, ported: players guess two thirds of their average, a moderator tells them.

ecumene serve --data-dir /tmp/example &
ecumene runtime --server 127.0.0.1:7170 --workflow-path examples --workflow-module guess_workflow &
python examples/guess_workflow.py local            # or, on the host: python examples/guess_workflow.py 127.0.0.1:7170

What became what:

    AgentScope 0.1                                  here
    agentscope.init(...)                        with workflows.connect(address): or workflows.local()
    class Player(AgentBase), reply(self, x)     class Player(Actor), methods of any name
    Msg(name, content, role)                    a registered dataclass, or any JSON value
    Player(...).to_dist()                       Player(...).to_dist(): the same word
    to_dist(host=..., port=...)                 to_dist(host="name"): hosts are found through the world
    agent(msg) gives a placeholder              agent.guess(note) gives a placeholder
    several answers as a list of messages       the list is passed as it is, placeholders and all
    msg.content waits                           note.content waits; so do note.get() and await note
    sequentialpipeline([a, b], x)               sequential(x, a.hear, b.hear)
    a loop over agents                          the same loop, or fan_out(x, methods)
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

from ecumene import workflows
from ecumene.workflows import Actor, fan_in, fan_out, message, sequential


@message
@dataclass(frozen=True)
class Note:
    """What players and moderator tell each other."""

    name: str
    content: float


class Player(Actor):
    """Guesses two thirds of what it believes that the others guess."""

    def __init__(self, name: str, belief: float) -> None:
        self.name = name
        self.belief = belief

    def guess(self, announced: Note) -> Note:
        """Its guess, after what the moderator has announced."""
        self.belief = (self.belief + announced.content) / 2
        return Note(self.name, round(self.belief * 2 / 3, 2))


class Moderator(Actor):
    """Hears all guesses of a round, and announces their mean."""

    def __init__(self) -> None:
        self.winners: list[str] = []

    def close_round(self, guesses: list[Note]) -> Note:
        """The mean; who was nearest to two thirds of it has won."""
        mean = sum(guess.content for guess in guesses) / len(guesses)
        nearest = min(guesses, key=lambda guess: (abs(guess.content - mean * 2 / 3), guess.name))
        self.winners.append(nearest.name)
        return Note("moderator", round(mean, 2))

    def list_winners(self, last: Note) -> list[str]:
        """Who won the rounds up to the one that ended with this announcement."""
        return self.winners


def play(players: int = 5, rounds: int = 4) -> tuple[list[str], float]:
    """The central script: nothing in it waits before the end."""
    crowd = [Player(f"player-{number}", 100.0 / (number + 1)).to_dist() for number in range(players)]
    moderator = Moderator().to_dist()
    announced = Note("moderator", 50.0)
    for _ in range(rounds):
        guesses = fan_out(announced, [player.guess for player in crowd])
        announced = fan_in(moderator.close_round, guesses)
    return sequential(announced, moderator.list_winners).get(), announced.content


def main(where: str) -> None:
    """Play, and tell who won."""
    with workflows.local() if where == "local" else workflows.connect(where):
        winners, mean = play()
    for number, winner in enumerate(winners, start=1):
        print(f"round {number}: {winner}")
    print(f"the last mean was {mean:g}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "local")
