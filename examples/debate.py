"""Three who debate and one who judges: the classes of debate_local.py and debate_distributed.py.

Rules stand in for a model, so that both give the same every time.
"""

from __future__ import annotations

from ecumene.workflows import Actor

DOUBTS = ("who has counted that", "it was different last year", "one might as well say the opposite")


class Debater(Actor):
    """Answers claims in turn with doubts of its own, and remembers what it has said."""

    def __init__(self, name: str, first_doubt: int) -> None:
        self.name = name
        self.next_doubt = first_doubt
        self.said: list[str] = []

    def answer(self, claim: str) -> str:
        """What it has to say about a claim."""
        doubt = DOUBTS[self.next_doubt % len(DOUBTS)]
        self.next_doubt += 1
        self.said.append(f"{self.name}: '{claim.rpartition(': ')[2]}' - {doubt}")
        return self.said[-1]


class Judge(Actor):
    """Hears all answers of a round, and lets the longest stand as the next claim."""

    def __init__(self) -> None:
        self.points: dict[str, int] = {}

    def choose(self, answers: list[str]) -> str:
        """The answer that stands; its author gets a point."""
        chosen = max(answers, key=lambda answer: (len(answer), answer))
        name = chosen.partition(":")[0]
        self.points[name] = self.points.get(name, 0) + 1
        return f"{name}: {chosen.rpartition(' - ')[2]}"

    def verdict(self) -> dict[str, int]:
        """Points by name."""
        return dict(sorted(self.points.items()))
