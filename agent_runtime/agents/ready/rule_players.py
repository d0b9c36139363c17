"""Players that follow a rule. They stand in for models where arithmetic, pipeline and plots are checked.

What they give is theory: a report labels it so and never calls it a reproduction.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import ClassVar, Protocol

from agent_runtime.agents.ready.game import HIGH, LOW, GuessGame
from agent_runtime.model.draws import Draw

# A stream of its own: an answer of a model and a choice of a rule never share their chance.
CHOICE_STREAM = 16


class RulePlayer(Protocol):
    """A rule, for any number of agents. Round numbers start at 1."""

    name: ClassVar[str]

    def choose(self, agent_id: str, round_number: int, last_winner: float | None) -> float:
        """The number of one agent, in [0, 100]. `last_winner` is None until a winning number was told."""
        ...

    def choose_many(self, agent_ids: Sequence[str], round_number: int, last_winner: float | None) -> list[float]:
        """The numbers of many agents, in their order: for each what `choose` gives."""
        ...


class _OneForAll:
    """A rule by which all agents name the same number."""

    def _choose(self, last_winner: float | None) -> float:
        raise NotImplementedError

    def choose(self, agent_id: str, round_number: int, last_winner: float | None) -> float:
        return self._choose(last_winner)

    def choose_many(self, agent_ids: Sequence[str], round_number: int, last_winner: float | None) -> list[float]:
        return [self._choose(last_winner)] * len(agent_ids)


class LevelK(_OneForAll):
    """`level` steps of best response from the reference point: 50 · ratio^level in round 1.

    Later the reference is the last round's mean, which the winning number implies (winner / ratio):
    the player expects the others to stay, and again thinks `level` steps. Level 0 names the reference.
    """

    name: ClassVar[str] = "level-k"

    def __init__(self, game: GuessGame, level: int) -> None:
        if level < 0:
            raise ValueError(f"level must not be negative, is {level}")
        self.game = game
        self.level = level

    def _choose(self, last_winner: float | None) -> float:
        return self.game.respond(self.game.find_reference(last_winner), self.level)


class EquilibriumPlayer(_OneForAll):
    """Always the equilibrium: 0 for a ratio below 1, 10 for 5 + mean/2."""

    name: ClassVar[str] = "equilibrium"

    def __init__(self, game: GuessGame) -> None:
        self._number = game.equilibrium

    def _choose(self, last_winner: float | None) -> float:
        return self._number


class NoisyLevelK:
    """A level-k number with normal noise of standard deviation `deviation`, truncated to [0, 100].

    Truncated means drawn from the part of the normal distribution inside: the mean moves inwards
    where the level-k number is near an end, and no number piles up at it. One draw an agent and round.
    """

    name: ClassVar[str] = "noisy-level-k"

    def __init__(self, game: GuessGame, level: int, deviation: float, seed: int) -> None:
        if not (math.isfinite(deviation) and deviation > 0):
            raise ValueError(f"deviation must be a positive number, is {deviation!r}")
        self._rule = LevelK(game, level)
        self._deviation = deviation
        self._seed = seed

    def choose(self, agent_id: str, round_number: int, last_winner: float | None) -> float:
        return self.choose_many((agent_id,), round_number, last_winner)[0]

    def choose_many(self, agent_ids: Sequence[str], round_number: int, last_winner: float | None) -> list[float]:
        centre = self._rule.choose("", round_number, last_winner)
        noise = NormalDist(centre, self._deviation)
        below, above = noise.cdf(LOW), noise.cdf(HIGH)
        return [
            # Rounding may carry the quantile just outside; 0 and 1 have none.
            min(max(noise.inv_cdf(min(max(quantile, 1e-300), 1 - 2**-53)), LOW), HIGH)
            for quantile in (
                Draw(self._seed, agent_id, round_number, 0, CHOICE_STREAM).uniform(below, above)
                for agent_id in agent_ids
            )
        ]


class ListedNumbers:
    """The number that a list has for the round, whatever happened before; the last one in all rounds beyond its end.

    For figures that were published: a group of it has their means, without noise.
    """

    name: ClassVar[str] = "listed"

    def __init__(self, numbers: Sequence[float]) -> None:
        if not numbers or not all(LOW <= number <= HIGH for number in numbers):
            raise ValueError(f"numbers must be a list of numbers from {LOW:g} to {HIGH:g}, are {numbers!r}")
        self._numbers = tuple(map(float, numbers))

    def choose(self, agent_id: str, round_number: int, last_winner: float | None) -> float:
        return self._numbers[min(round_number, len(self._numbers)) - 1]

    def choose_many(self, agent_ids: Sequence[str], round_number: int, last_winner: float | None) -> list[float]:
        return [self.choose("", round_number, last_winner)] * len(agent_ids)


class RandomPlayer:
    """Any number in [0, 100], all equally likely, anew in each round."""

    name: ClassVar[str] = "random"

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def choose(self, agent_id: str, round_number: int, last_winner: float | None) -> float:
        return Draw(self._seed, agent_id, round_number, 0, CHOICE_STREAM).uniform(LOW, HIGH)

    def choose_many(self, agent_ids: Sequence[str], round_number: int, last_winner: float | None) -> list[float]:
        return [self.choose(agent_id, round_number, last_winner) for agent_id in agent_ids]
