"""What happened in each round, in numbers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ecumene.client.records import TurnStatus
from ecumene.sim.reporting.numbers import GuessRecording

WINNERS_NAMED_MAX = 5


@dataclass(frozen=True, slots=True)
class RoundRow:
    """One round.

    Attributes:
        round: its number, from 1.
        turns: agents that had a turn.
        reported: numbers that took effect; only they are in the figures below.
        statuses: status -> turns that ended so; those of failed turns are in no mean.
        mean, std, median: of the numbers; std with n - 1. None where there are too few.
        target: the winning number, ratio × mean + offset; the mean is summed exactly, and that of the groups' numbers
            where groups play.
        told: the winning number that the world told; None if not known.
        winners: agents, or groups where those play, nearest to the target, the first few; `winner_count` is how many
            tie.
        winner_number: what the first of them named; the others named it, too, or one as far on the other side.
        flags: flag -> turns whose answer has it.
        groups: where groups play, the number of each that has one, the mean of its members' numbers.
    """

    round: int
    turns: int
    reported: int
    statuses: Mapping[str, int]
    mean: float | None = None
    std: float | None = None
    median: float | None = None
    target: float | None = None
    told: float | None = None
    winners: Sequence[str] = ()
    winner_count: int = 0
    winner_number: float | None = None
    flags: Mapping[str, int] = field(default_factory=dict)
    groups: Mapping[str, float] = field(default_factory=dict)

    @property
    def failed(self) -> dict[str, int]:
        """Status -> turns, for the turns that did not act."""
        return {status: count for status, count in self.statuses.items() if not is_acting(status)}


def summarise_rounds(
    recording: GuessRecording,
    *,
    ratio: float,
    offset: float = 0.0,
    told: Mapping[int, float] | None = None,
    changed: Mapping[int, tuple[float, float]] | None = None,
    teams: Mapping[str, str] | None = None,
) -> list[RoundRow]:
    """One row for each round that has a turn or a number, in order.

    `told` gives the winning numbers that the world told, by round, to stand beside the computed ones;
    `changed` ratio and offset of rounds that were played by other rules; `teams` the group of each agent, where groups
    play.
    """
    told, changed = told or {}, changed or {}
    rounds = np.union1d(recording.turn_rounds, recording.number_rounds)
    return [
        summarise_round(recording, number, *changed.get(number, (ratio, offset)), told.get(number), teams)
        for number in map(int, rounds)
    ]


def summarise_round(
    recording: GuessRecording,
    number: int,
    ratio: float,
    offset: float,
    told: float | None,
    teams: Mapping[str, str] | None = None,
) -> RoundRow:
    """The row of one round; `teams`: the group of each agent, where groups play."""
    in_round = recording.turn_rounds == number
    counted = recording.number_rounds == number
    # Rows of a recording have no order: sorted, so that the same ones give the same figures to the last digit.
    order = np.argsort(recording.numbers[counted], kind="stable")
    numbers, agents = recording.numbers[counted][order], recording.number_agents[counted][order]
    row = RoundRow(
        round=number,
        turns=int(in_round.sum()),
        reported=len(numbers),
        statuses=count_names(recording.statuses, recording.turn_statuses[in_round]),
        told=told,
        flags=count_flags(recording, in_round),
    )
    if len(numbers) == 0:
        return row
    mean = math.fsum(numbers) / len(numbers)
    names = [recording.agents[agent] for agent in agents]
    groups = average_groups(names, numbers.tolist(), teams) if teams else {}
    taken = math.fsum(groups.values()) / len(groups) if groups else mean
    target = ratio * taken + offset
    players, played = (list(groups), np.array(list(groups.values()))) if groups else (names, numbers)
    distances = np.abs(played - target)
    nearest = np.flatnonzero(distances <= distances.min() + 1e-12)
    winners = sorted((players[place], float(played[place])) for place in nearest)
    return RoundRow(
        round=row.round,
        turns=row.turns,
        reported=row.reported,
        statuses=row.statuses,
        mean=mean,
        std=float(np.std(numbers, ddof=1)) if len(numbers) > 1 else None,
        median=float(np.median(numbers)),
        target=target,
        told=told,
        winners=tuple(name for name, _ in winners[:WINNERS_NAMED_MAX]),
        winner_count=len(winners),
        winner_number=winners[0][1],
        flags=row.flags,
        groups=groups,
    )


def average_groups(agents: Sequence[str], numbers: Sequence[float], teams: Mapping[str, str]) -> dict[str, float]:
    """Group -> the mean of its members' numbers, by name; agents of no group are left out."""
    members: dict[str, list[float]] = {}
    for agent, number in zip(agents, numbers, strict=True):
        if agent in teams:
            members.setdefault(teams[agent], []).append(number)
    return {name: math.fsum(members[name]) / len(members[name]) for name in sorted(members)}


def count_names(names: Sequence[str], codes: np.ndarray) -> dict[str, int]:
    """Name -> how often, for the names that occur; the most frequent first."""
    counts = np.bincount(codes, minlength=len(names)).tolist()
    pairs = sorted(zip(names, counts, strict=True), key=lambda pair: (-pair[1], pair[0]))
    return {name: count for name, count in pairs if count}


def count_flags(recording: GuessRecording, turns: np.ndarray) -> dict[str, int]:
    """Flag -> turns that have it, among the chosen turns."""
    found: Counter[str] = Counter()
    for together, count in count_names(recording.flags, recording.turn_flags[turns]).items():
        found.update({flag: count for flag in together.split(",") if flag})
    return dict(found.most_common())


def is_acting(status: str) -> bool:
    """Whether turns of a status do what they were woken for; one of a later version is taken not to."""
    return status in set(TurnStatus) and TurnStatus(status).acted
