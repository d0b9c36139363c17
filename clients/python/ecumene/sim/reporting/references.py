"""What results are compared with: theory, people, and what a spec gives. None is a claim that a run reproduces it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ecumene.sim.specs.references import ReferenceSpec

LOW, MIDDLE, HIGH = 0.0, 50.0, 100.0


@dataclass(frozen=True, slots=True)
class Reference:
    """A line to compare with.

    Attributes:
        name: short, for a legend.
        kind: `theory`, `people`, or `given` by the spec.
        source: where it comes from.
        means: round -> mean.
        median, players: of round 1, where they are known.
    """

    name: str
    kind: str
    source: str
    means: Mapping[int, float]
    median: float | None = None
    players: int | None = None


@dataclass(frozen=True, slots=True)
class _Session:
    means: tuple[float, ...]
    first_mean: float
    first_median: float
    players: int


_NAGEL = "American Economic Review 85(5), as transcribed publicly"
_SESSIONS = {
    2 / 3: _Session((39.7, 28.6, 20.2, 16.7), 36.73, 33.0, 67),
    1 / 2: _Session((23.7, 10.9, 5.3, 8.1), 27.05, 17.0, 50),
    4 / 3: _Session((), 60.12, 66.0, 51),
}


def list_references(
    *, ratio: float, offset: float, rounds: int, given: Sequence[ReferenceSpec] = ()
) -> list[Reference]:
    """The references that exist for a game: theory always, people where they played, and given ones."""
    own = [Reference(one.name, "given", one.source or "given by the spec", dict(one.means)) for one in given]
    return [*_list_theory(ratio, offset, rounds), *_list_people(ratio, offset, rounds), *own]


def _list_theory(ratio: float, offset: float, rounds: int) -> list[Reference]:
    return [
        Reference(
            name="best response each round",
            kind="theory",
            source=f"50·({ratio:.4g})^k in round k" if offset == 0 else "best responses from a mean of 50",
            means=dict(enumerate(chain_best_responses(ratio, offset, rounds), start=1)),
        ),
        Reference(
            name="equilibrium",
            kind="theory",
            source="the limit of best responses from a mean of 50",
            means=dict.fromkeys(range(1, rounds + 1), find_equilibrium(ratio, offset)),
        ),
    ]


def _list_people(ratio: float, offset: float, rounds: int) -> list[Reference]:
    session = next((s for known, s in _SESSIONS.items() if math.isclose(known, ratio, rel_tol=1e-6)), None)
    if session is None or offset != 0:
        return []
    first = Reference(
        name=f"Nagel 1995, round 1, n = {session.players}",
        kind="people",
        source=f"{_NAGEL}; all sessions, median {session.first_median:g}",
        means={1: session.first_mean},
        median=session.first_median,
        players=session.players,
    )
    shown = dict(enumerate(session.means[:rounds], start=1))
    repeated = Reference("Nagel 1995, one session", "people", f"{_NAGEL}; one session of four rounds", shown)
    return [first, *([repeated] if shown else [])]


def chain_best_responses(ratio: float, offset: float, steps: int) -> list[float]:
    """Step by step from a mean of 50: everyone answers the last mean. On purpose not by closed form."""
    chain = []
    number = MIDDLE
    for _ in range(steps):
        number = min(max(ratio * number + offset, LOW), HIGH)
        chain.append(number)
    return chain


def find_equilibrium(ratio: float, offset: float) -> float:
    """Where that chain leads."""
    if ratio < 1:
        return min(max(offset / (1 - ratio), LOW), HIGH)
    first = ratio * MIDDLE + offset
    if first == MIDDLE:
        return MIDDLE
    return HIGH if first > MIDDLE else LOW
